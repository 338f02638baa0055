// Protects what an application sees of a consumer: it opens from two URLs or says what to do, runs, stops when told
// from anywhere, counts, and takes its options seriously.

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sealane/inbox.hpp"
#include "sealane/once.hpp"

#include "ops/inbox_desk.hpp"
#include "sqlite/sqlite_store.hpp"
#include "support/consume_place.hpp"
#include "support/eventually.hpp"
#include "support/pg_session.hpp"
#include "support/sqlite_file.hpp"
#include "support/working_folder.hpp"

namespace sealane::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class InboxFacade : public ::testing::Test {
 protected:
  InboxOptions Options() const {
    return {.store = place_.store_url(),
            .broker = place_.broker_url(),
            .consumer = "billing",
            .topics = {place_.topic()}};
  }
  /// Appends an effect.
  static Decision Note(const Envelope& event, HandlerTransaction& tx) {
    const SqlValue values[] = {event.key, *event.aggregate.version, event.id.ToString()};
    ValueOrThrow(
        tx.Execute("INSERT INTO effects (consumer, key, version, event_id) VALUES ('billing', $1, $2, $3)", values));
    return Decision::Done();
  }
  static Handlers Noting() {
    Handlers handlers;
    handlers.On("OrderChanged", Note);
    return handlers;
  }
  static Error Refused(InboxOptions options) {
    const auto opened = Inbox::Open(std::move(options), Noting());
    EXPECT_FALSE(opened.has_value());
    if (opened) return Error(ErrorKind::kMisuse, "opened", "it was opened");
    EXPECT_FALSE(opened.error().hint().empty()) << opened.error().ToString();
    return opened.error();
  }

  ConsumePlace place_{"sqlite_journal"};
};

TEST_F(InboxFacade, AppliesWhatIsThereAndCounts) {
  const std::vector<Envelope> events = ChangesOf(5, 4);
  place_.Publish(events);
  place_.Publish(events);
  auto inbox = Inbox::Open(Options(), Noting());
  ASSERT_TRUE(inbox) << inbox.error().ToString();
  EXPECT_EQ(inbox->stats().state, "starting");
  ASSERT_TRUE(inbox->RunUntilCaughtUp());
  const InboxStats stats = inbox->stats();
  EXPECT_EQ(stats.state, "stopped");
  EXPECT_EQ(stats.received, 40U);
  EXPECT_EQ(stats.effects, 20U);
  EXPECT_EQ(stats.duplicates, 20U);
  EXPECT_EQ(stats.problem, "");
  EXPECT_GE(stats.transactions, 1U);
  EXPECT_EQ(place_.CountEffects("billing"), 20);
}

TEST_F(InboxFacade, RunsAgainAndGoesOnWhereItWas) {
  auto inbox = ValueOrThrow(Inbox::Open(Options(), Noting()));
  place_.Publish(ChangesOf(3, 1));
  ASSERT_TRUE(inbox.RunUntilCaughtUp());
  place_.Publish({ChangeOf("k0", 2)});
  ASSERT_TRUE(inbox.RunUntilCaughtUp());
  EXPECT_EQ(inbox.stats().received, 1U);
  EXPECT_EQ(place_.CountEffects("billing"), 4);
}

TEST_F(InboxFacade, RelativePathsNameTheSameFilesAfterAChangeOfDirectory) {
  const std::string store = place_.store_url().substr(std::string("sqlite:").size());
  const std::string journal = place_.broker_url().substr(std::string("journal:").size());
  const WorkingFolder first(std::filesystem::path(store).parent_path());
  InboxOptions relative = Options();
  relative.store = "sqlite:" + std::filesystem::relative(store).string();
  relative.broker = "journal:" + std::filesystem::relative(journal).string();
  auto inbox = ValueOrThrow(Inbox::Open(relative, Noting()));
  const SqliteFile elsewhere;
  const WorkingFolder second(elsewhere.folder());
  place_.Publish(ChangesOf(3, 1));
  ASSERT_TRUE(inbox.RunUntilCaughtUp());
  EXPECT_EQ(place_.CountEffects("billing"), 3);
}

// More keys than are tried at one go, so that a run which does not wait for them leaves some behind.
TEST_F(InboxFacade, IsCaughtUpOnlyWhenWhatIsDueWasTriedAgain) {
  Handlers rejecting;
  rejecting.On("OrderChanged",
               [](const Envelope&, HandlerTransaction&) { return Decision::Reject("no_price", "no price"); });
  place_.Publish(ChangesOf(100, 1));
  InboxOptions unguarded = Options();
  unguarded.breaker = false;
  ASSERT_TRUE(ValueOrThrow(Inbox::Open(unguarded, rejecting)).RunUntilCaughtUp());
  ASSERT_EQ(place_.Number("SELECT count(*) FROM sealane_inbox_parked WHERE state = 'DEAD'"), 100);

  const auto desk = ValueOrThrow(sqlite::OpenInboxDesk({.path = place_.store_url().substr(sizeof("sqlite:") - 1)}));
  ASSERT_EQ(ValueOrThrow(desk->Retry({.limit = 1'000}, {.actor = "alice", .reason = "price list loaded"})), 100);
  auto inbox = ValueOrThrow(Inbox::Open(Options(), Noting()));
  ASSERT_TRUE(inbox.RunUntilCaughtUp());
  EXPECT_EQ(place_.CountEffects("billing"), 100);
}

TEST_F(InboxFacade, StopsWhenItsTokenSaysSo) {
  auto inbox = ValueOrThrow(Inbox::Open(Options(), Noting()));
  place_.Publish(ChangesOf(3, 1));
  Status end = Error(ErrorKind::kMisuse, "not_ended", "it did not end");
  {
    const std::jthread runner([&](const std::stop_token& stop) { end = inbox.Run(stop); });
    EXPECT_TRUE(Eventually([&] { return place_.CountEffects("billing") == 3; }));
  }
  EXPECT_TRUE(end);
}

TEST_F(InboxFacade, StopsFromAnotherThreadAndStaysStopped) {
  auto inbox = ValueOrThrow(Inbox::Open(Options(), Noting()));
  place_.Publish(ChangesOf(3, 1));
  std::thread stopper([&] {
    EXPECT_TRUE(Eventually([&] { return inbox.stats().effects == 3; }));
    inbox.Stop();
  });
  EXPECT_TRUE(inbox.Run());
  stopper.join();
  EXPECT_TRUE(inbox.Run()) << "a later run ends at once";
}

TEST_F(InboxFacade, StopsFromAHandler) {
  std::optional<Inbox> inbox;
  Handlers handlers;
  handlers.On("OrderChanged", [&](const Envelope& event, HandlerTransaction& tx) {
    inbox->Stop();
    return Note(event, tx);
  });
  inbox.emplace(ValueOrThrow(Inbox::Open(Options(), handlers)));
  place_.Publish({ChangeOf("a", 1)});
  EXPECT_TRUE(inbox->Run());
  EXPECT_EQ(place_.CountEffects("billing"), 1) << "the transaction under way was finished";
}

TEST_F(InboxFacade, ASecondRunAtTheSameTimeIsMisuse) {
  auto inbox = ValueOrThrow(Inbox::Open(Options(), Noting()));
  place_.Publish({ChangeOf("a", 1)});
  const std::jthread runner([&](const std::stop_token& stop) { EXPECT_TRUE(inbox.Run(stop)); });
  EXPECT_TRUE(Eventually([&] { return inbox.stats().effects == 1; }));
  const Status second = inbox.Run();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), "inbox_runs");
}

TEST_F(InboxFacade, TenantsAreCheckedBeforeTheHandler) {
  Envelope ours = ChangeOf("ours", 1);
  ours.tenant = "t1";
  Envelope theirs = ChangeOf("theirs", 1);
  theirs.tenant = "t2";
  place_.Publish({ours, theirs});
  for (const bool by_list : {true, false}) {
    InboxOptions options = Options();
    options.consumer = by_list ? "list" : "callback";
    if (by_list) {
      options.tenants = {"t0", "t1"};
    } else {
      options.tenant_allowed = [](std::string_view tenant) { return tenant == "t1"; };
    }
    auto inbox = ValueOrThrow(Inbox::Open(options, Noting()));
    ASSERT_TRUE(inbox.RunUntilCaughtUp());
    EXPECT_EQ(inbox.stats().effects, 1U);
    EXPECT_EQ(inbox.stats().dead_total, 1U);
    EXPECT_EQ(inbox.stats().failures.at("tenant_not_allowed"), 1U);
  }
}

TEST_F(InboxFacade, ARetryPolicyIsAValueOrAName) {
  place_.Publish({ChangeOf("a", 1)});
  Handlers failing;
  failing.On("OrderChanged",
             [](const Envelope&, HandlerTransaction&) { return Decision::RetryLater("not_now", "later"); });
  InboxOptions options = Options();
  options.retry = RetryPolicy{.attempts_max = 1};
  auto inbox = ValueOrThrow(Inbox::Open(options, failing));
  ASSERT_TRUE(inbox.RunUntilCaughtUp());
  EXPECT_EQ(inbox.stats().dead_total, 1U);
  options.consumer = "patient";
  options.retry = "payments";
  auto patient = ValueOrThrow(Inbox::Open(options, failing));
  ASSERT_TRUE(patient.RunUntilCaughtUp());
  EXPECT_EQ(patient.stats().dead_total, 0U);
  EXPECT_GE(patient.stats().parked_total, 1U);
}

TEST_F(InboxFacade, TwoEventsAboutOnePaymentAreBookedOnce) {
  Handlers handlers;
  handlers.On("OrderChanged", [](const Envelope& event, HandlerTransaction& tx) {
    if (!ValueOrThrow(EnsureOnce(tx, "payment", "p-1"))) return Decision::Ignore("paid_already");
    return Note(event, tx);
  });
  place_.Publish({ChangeOf("a", 1), ChangeOf("b", 1), ChangeOf("a", 2)});
  auto inbox = ValueOrThrow(Inbox::Open(Options(), handlers));
  ASSERT_TRUE(inbox.RunUntilCaughtUp());
  EXPECT_EQ(inbox.stats().effects, 1U);
  EXPECT_EQ(inbox.stats().ignored, 2U);
  EXPECT_EQ(place_.CountEffects("billing"), 1);
}

TEST_F(InboxFacade, AWrongStoreUrlIsToldWithoutItsPassword) {
  InboxOptions options = Options();
  options.store = "mysql://app:hunter2@db/shop";
  const Error error = Refused(options);
  EXPECT_EQ(error.kind(), ErrorKind::kMisconfigured);
  EXPECT_EQ(error.code(), "bad_store_url");
  EXPECT_THAT(error.ToString(), Not(HasSubstr("hunter2")));
}

TEST_F(InboxFacade, AWrongBrokerUrlIsTold) {
  InboxOptions options = Options();
  options.broker = "kafak://b1:9092";
  EXPECT_EQ(Refused(options).code(), "bad_broker_url");
  options.broker = "https://example.org/hook";
  EXPECT_EQ(Refused(options).code(), "broker_not_readable");
  options.broker = "kafka://user:hunter2@b1:9092";
  const Error error = Refused(options);
  EXPECT_THAT(error.hint(), HasSubstr("broker_properties"));
  EXPECT_THAT(error.ToString(), Not(HasSubstr("hunter2")));
}

TEST_F(InboxFacade, AStoreWithoutTablesSaysHowToMakeThem) {
  InboxOptions options = Options();
  SqliteHandle(place_.folder() + "/empty.db").Execute("CREATE TABLE own (id INTEGER)");
  options.store = "sqlite:" + place_.folder() + "/empty.db";
  EXPECT_THAT(Refused(options).hint(), HasSubstr("sealane migrate up"));
  options.store = "sqlite:" + place_.folder() + "/nowhere.db";
  EXPECT_THAT(Refused(options).hint(), HasSubstr("sealane migrate up"));
  const ScratchDatabase database;
  options.store = database.url();
  EXPECT_THAT(Refused(options).hint(), HasSubstr("sealane migrate up"));
}

TEST_F(InboxFacade, AWrongPasswordIsToldAndNotShown) {
  const ScratchDatabase database;
  Migrate(database.url());
  InboxOptions options = Options();
  options.store = database.UrlAs("pw_user");
  options.store_password = "hunter2";
  const Error error = Refused(options);
  EXPECT_EQ(error.code(), "login_refused");
  EXPECT_THAT(error.ToString(), Not(HasSubstr("hunter2")));
}

TEST_F(InboxFacade, OptionsThatMakeNoSenseAreNamed) {
  const auto field_of = [&](auto change) {
    InboxOptions options = Options();
    change(options);
    const Error error = Refused(options);
    EXPECT_EQ(error.kind(), ErrorKind::kMisconfigured);
    EXPECT_EQ(error.code(), "invalid_consumer");
    return error.field();
  };
  EXPECT_EQ(field_of([](InboxOptions& o) { o.topics.clear(); }), "topics");
  EXPECT_EQ(field_of([](InboxOptions& o) { o.consumer.clear(); }), "consumer");
  EXPECT_EQ(field_of([](InboxOptions& o) { o.workers = 0; }), "workers");
  EXPECT_EQ(field_of([](InboxOptions& o) { o.batch_max = 0; }), "batch");
  EXPECT_EQ(field_of([](InboxOptions& o) { o.retry = "eager"; }), "retry");
  EXPECT_EQ(field_of([](InboxOptions& o) {
              o.tenants = {"t1"};
              o.tenant_allowed = [](std::string_view) { return true; };
            }),
            "tenants");
}

TEST_F(InboxFacade, AnotherModeThanTheConsumerBeganWithIsRefused) {
  ASSERT_TRUE(Inbox::Open(Options(), Noting()));
  InboxOptions options = Options();
  options.mode = InboxMode::kOffsets;
  EXPECT_EQ(Refused(options).code(), "inbox_mode_differs");
}

}  // namespace
}  // namespace sealane::testing
