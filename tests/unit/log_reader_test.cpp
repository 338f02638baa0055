// Protects which part of the log is read for whom: lanes that come from other relays bring flows of their own, at
// positions of their own.

#include "relay/log_reader.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sealane/clock.hpp"

#include "memory/memory_store.hpp"
#include "relay/lease_board.hpp"
#include "relay/route_options.hpp"
#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"

namespace sealane::testing {
namespace {

constexpr std::int32_t kLanes = 4;

class LogReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ValueOrThrow(log_->Beat(std::chrono::minutes{1}));
    grants_ = ValueOrThrow(log_->Claim(kLanes, std::chrono::minutes{1}));
    for (const LaneGrant& grant : grants_) {
      lanes_.push_back(grant.lease.lane);
      leases_.push_back(grant.lease);
    }
  }
  /// A position after so many events.
  Position After(std::size_t events) {
    const Horizon horizon = ValueOrThrow(log_->Look());
    return ValueOrThrow(
               log_->Read(
                   {.lanes = lanes_, .from = &grants_[0].positions.main, .horizon = &horizon, .entries_max = events}))
        .next;
  }
  void Append(const std::string& key, const std::string& tenant) {
    NewEntry entry = SampleEntry(key);
    entry.envelope.tenant = tenant;
    AppendAndCommit(*store_, {entry});
  }
  void Decide(std::vector<TenantRule> rules) {
    board_.Renew(leases_, BootTime::max(), {.tenants = std::move(rules), .lanes = kLanes, .live_relays = 1}, false);
  }

  ManualClock clock_;
  std::shared_ptr<memory::Database> database_ = memory::MakeDatabase(clock_, std::chrono::seconds{5}, kLanes);
  std::unique_ptr<OutboxStore> store_ = ValueOrThrow(memory::OpenOutboxStore(database_));
  std::unique_ptr<OutboxLog> log_ = memory::MakeOutboxLog(database_, "main", "relay-1", clock_);
  std::vector<LaneGrant> grants_;
  std::vector<Lane> lanes_;
  std::vector<LaneLease> leases_;
  const RouteOptions options_;
  LeaseBoard board_{[] {}};
  WorkQueue queue_{[] {}};
  MemoryBudget budget_{options_.memory_max, [] {}};
  LogReader reader_{options_, board_, queue_, budget_, clock_};
};

TEST_F(LogReaderTest, APauseReachesEveryFlowThatCarriesTheTenant) {
  for (int i = 0; i < 40; ++i) Append("k" + std::to_string(i), i % 2 == 0 ? "a" : "b");
  // All lanes bring the tenants in one flow apart, each at another position.
  for (std::size_t i = 0; i < grants_.size(); ++i) {
    grants_[i].positions.apart = {{.tenants = {"a", "b"}, .position = After(1 + i)}};
  }
  board_.Grant(grants_);
  Decide({{.tenant = "a", .paused = true}});
  for (int i = 0; i < 50; ++i) ValueOrThrow(reader_.RunOnce(*log_));
  std::set<std::string> tenants;
  while (const std::optional<Work> work = queue_.TryPop()) {
    if (const auto* read = std::get_if<PageRead>(&*work)) {
      for (const LogEntry& entry : read->page.entries) tenants.emplace(entry.event.tenant);
    }
  }
  EXPECT_THAT(tenants, ::testing::ElementsAre("b"));
}

TEST_F(LogReaderTest, ABellIsServedSoonerThanTheNextTurn) {
  board_.Grant(grants_);
  Decide({});
  ASSERT_TRUE(ValueOrThrow(reader_.RunOnce(*log_)).looked);
  clock_.Advance(options_.poll_min / 2);
  const LogReader::Step early = ValueOrThrow(reader_.RunOnce(*log_));
  EXPECT_FALSE(early.looked);
  EXPECT_EQ(reader_.Pace(early), options_.poll_min / 2) << "exactly what is left, not another turn";
  reader_.Hurry();
  EXPECT_TRUE(ValueOrThrow(reader_.RunOnce(*log_)).looked);
  EXPECT_FALSE(ValueOrThrow(reader_.RunOnce(*log_)).looked) << "a bell counts once";
}

// An event of somebody else is read before the next page of a backlog, and that page is a small one.
TEST_F(LogReaderTest, ABacklogIsReadInSmallPagesWhileOthersHaveEvents) {
  std::vector<NewEntry> backlog;
  for (int i = 0; i < 15'000; ++i) {
    backlog.push_back(SampleEntry("k" + std::to_string(i % 100)));
    backlog.back().envelope.tenant = "big";
  }
  AppendAndCommit(*store_, backlog);
  const Position before{.cursor = ValueOrThrow(log_->Look()).cursor};
  Append("small", "small");
  for (LaneGrant& grant : grants_) {
    grant.positions.apart = {{.tenants = {"big"}, .position = grant.positions.main}};
    grant.positions.main = before;
  }
  board_.Grant(grants_);
  Decide({});
  std::vector<std::pair<bool, std::size_t>> pages;  // of the main flow, and how many events
  const auto run = [&](int steps) {
    pages.clear();
    for (int i = 0; i < steps; ++i) {
      ValueOrThrow(reader_.RunOnce(*log_));
      clock_.Advance(options_.poll_min);
    }
    while (const std::optional<Work> work = queue_.TryPop()) {
      const auto* read = std::get_if<PageRead>(&*work);
      if (read == nullptr || read->page.entries.empty()) continue;
      pages.emplace_back(read->flow == kMainFlow, read->page.entries.size());
    }
  };
  run(5);
  ASSERT_GE(pages.size(), 4U);
  EXPECT_EQ(pages[0], std::pair(true, std::size_t{1}));
  for (std::size_t i = 1; i < pages.size(); ++i) {
    EXPECT_FALSE(pages[i].first) << i;
    EXPECT_LE(pages[i].second, kApartEntries) << i;
  }
  Append("small", "small");
  run(2);
  ASSERT_FALSE(pages.empty());
  EXPECT_TRUE(pages[0].first) << "whoever had nothing to do comes first";
  clock_.Advance(std::chrono::seconds{10});
  run(1);
  ASSERT_THAT(pages, ::testing::SizeIs(1));
  EXPECT_GT(pages[0].second, kApartEntries) << "nobody else has anything";
}

TEST(MemoryBudget, TellsOnlyWhoWasRefused) {
  int told = 0;
  MemoryBudget budget(100, [&] { ++told; });
  budget.Take(60);
  budget.Release(10);
  EXPECT_EQ(told, 0);
  EXPECT_FALSE(budget.HasRoomFor(80));
  budget.Release(10);
  EXPECT_EQ(told, 1);
  budget.Release(10);
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(budget.HasRoomFor(60));
}

}  // namespace
}  // namespace sealane::testing
