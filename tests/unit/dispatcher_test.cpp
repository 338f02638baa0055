// Protects the share that everybody has of the publishing loop: events of the main flow do not wait behind the pages
// of tenants that run apart, and order stays what it was.

#include "relay/dispatcher.hpp"

#include <algorithm>
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/database.hpp"
#include "memory/memory_store.hpp"
#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;

/// Takes what it is given, up to `room` messages, and answers when it is told to.
class SlowPublisher final : public Publisher {
 public:
  Submitted Submit(const OutgoingMessage& message) override {
    if (open_.size() >= room) return Submitted::kFull;
    open_.push_back(message.token);
    values.emplace_back(message.value);
    return Submitted::kTaken;
  }
  void Collect(std::vector<Delivery>& out, milliseconds) override {
    const std::size_t count = std::min(answers, open_.size());
    for (std::size_t i = 0; i < count; ++i) {
      Delivery delivery;
      delivery.token = open_[i];
      delivery.status = DeliveryStatus::kPersisted;
      out.push_back(std::move(delivery));
    }
    open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(count));
  }
  void Abandon() override {}
  void Interrupt() override {}
  PublisherHealth health() const override { return {}; }

  std::size_t room = 1'000'000;
  std::size_t answers = 1'000'000;  // of each Collect()
  std::vector<std::string> values;  // in the order of submitting

 private:
  std::vector<std::uint64_t> open_;
};

class DispatcherTest : public ::testing::Test {
 protected:
  DispatcherTest() {
    ValueOrThrow(log_->Beat(std::chrono::minutes{10}));
    grants_ = ValueOrThrow(log_->Claim(1, std::chrono::minutes{10}));
    at_ = grants_[0].positions.main;
    board_.Grant(grants_);
    const std::vector<LaneLease> leases = {grants_[0].lease};
    board_.Renew(leases, BootTime::max(), {.tenants = {}, .lanes = 1, .live_relays = 1}, false);
    queue_.Push(LaneOpened{.lease = grants_[0].lease, .positions = grants_[0].positions});
  }
  static RouteOptions Options() {
    RouteOptions options;
    options.owner = "relay-1";
    options.profile = WireProfile::kRaw;
    return options;
  }
  void SetApart(const std::string& tenant) {
    queue_.Push(FlowSplit{.lanes = {grants_[0].lease},
                          .from = kMainFlow,
                          .from_ends = false,
                          .into = {{.id = FlowIdOf({tenant}), .tenants = {tenant}}}});
  }
  void Rejoin(const std::string& tenant) {
    queue_.Push(FlowMerged{.lanes = {grants_[0].lease}, .flow = FlowIdOf({tenant})});
  }
  /// Appends events and hands them to the dispatcher in a page.
  void Page(const std::string& values, int count, FlowId flow = kMainFlow) {
    std::vector<NewEntry> entries;
    for (int i = 0; i < count; ++i) entries.push_back(WithPayload(SampleEntry("k"), values + std::to_string(i)));
    AppendAndCommit(*store_, entries);
    const std::array<Lane, 1> lanes = {0};
    const Horizon horizon = ValueOrThrow(log_->Look());
    sealane::Page page = ValueOrThrow(log_->Read({.lanes = lanes, .from = &at_, .horizon = &horizon}));
    ASSERT_EQ(page.entries.size(), static_cast<std::size_t>(count));
    at_ = page.next;
    budget_.Take(page.bytes);
    queue_.Push(PageRead{.page = std::move(page), .flow = flow, .lanes = {grants_[0].lease}});
  }
  void Step() {
    ValueOrThrow(dispatcher_.RunOnce(*log_, publisher_, milliseconds{0}));
    clock_.Advance(milliseconds{1});
  }
  std::size_t PlaceOf(const std::string& value) const {
    return static_cast<std::size_t>(std::ranges::find(publisher_.values, value) - publisher_.values.begin());
  }

  ManualClock clock_;
  SeededRandom random_{1};
  std::shared_ptr<memory::Database> database_ = memory::MakeDatabase(clock_, std::chrono::seconds{5}, 1);
  std::unique_ptr<OutboxStore> store_ = ValueOrThrow(memory::OpenOutboxStore(database_));
  std::unique_ptr<OutboxLog> log_ = memory::MakeOutboxLog(database_, "main", "relay-1", clock_);
  std::vector<LaneGrant> grants_;
  Position at_;
  const RouteOptions options_ = Options();
  LeaseBoard board_{[] {}};
  WorkQueue queue_{[] {}};
  MemoryBudget budget_{options_.memory_max, [] {}};
  SlowPublisher publisher_;
  Dispatcher dispatcher_{options_, TopicTemplate::Parse("").value(), board_, queue_, budget_, clock_, random_};
  const FlowId big_ = FlowIdOf({"big"});
};

// A page of 100 was begun and two more wait: an event of somebody else goes out behind the rest of the first at most.
TEST_F(DispatcherTest, TheMainFlowDoesNotWaitForPagesOfTenantsApart) {
  publisher_.room = 30;
  publisher_.answers = 30;
  SetApart("big");
  for (const char* page : {"a", "b", "c"}) Page(page, 100, big_);
  Step();
  ASSERT_EQ(publisher_.values.size(), 30U);
  Page("small", 1);
  for (int i = 0; i < 100; ++i) Step();
  EXPECT_EQ(PlaceOf("small0"), 100U);
  EXPECT_EQ(publisher_.values.size(), 301U) << "and nobody is forgotten";
}

// What is on its way cannot be overtaken, so it is little while others have events, and as much as fits when they
// have none.
TEST_F(DispatcherTest, TenantsApartHaveFewEventsOnTheirWayWhileOthersHaveSome) {
  publisher_.answers = 0;
  Page("small", 1);
  SetApart("big");
  Page("a", 3'000, big_);
  Step();
  EXPECT_EQ(publisher_.values.size(), kApartEntries);
  Page("later", 5);
  Step();
  EXPECT_EQ(publisher_.values.size(), kApartEntries) << "behind the rest of a page that was begun";
  publisher_.answers = 1'000'000;
  for (int i = 0; i < 20; ++i) Step();
  EXPECT_EQ(publisher_.values.size(), 3'006U);
  clock_.Advance(std::chrono::seconds{10});
  publisher_.answers = 0;
  Page("b", 3'000, big_);
  Step();
  EXPECT_EQ(publisher_.values.size(), 6'006U) << "nobody else has anything";
}

// A tenant that is part of the main flow again comes behind what was read of it before.
TEST_F(DispatcherTest, TheMainFlowStaysBehindTenantsThatJoinedItAgain) {
  publisher_.room = 0;
  SetApart("big");
  for (const char* page : {"a", "b"}) Page(page, 10, big_);
  Step();
  Rejoin("big");
  Page("joined", 1);
  SetApart("big");
  Page("c", 10, big_);
  Page("main", 1);
  Step();
  publisher_.room = 1'000;
  for (int i = 0; i < 10; ++i) Step();
  ASSERT_EQ(publisher_.values.size(), 32U);
  EXPECT_EQ(PlaceOf("joined0"), 20U);
  EXPECT_EQ(PlaceOf("main0"), 21U);
  EXPECT_EQ(PlaceOf("c0"), 22U);
}

}  // namespace
}  // namespace sealane::testing
