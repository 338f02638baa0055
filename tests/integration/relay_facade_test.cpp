// Protects what an application sees of a relay: it opens from two URLs or says what to do, ships what was committed,
// stops when told from anywhere, counts, and takes its options seriously.

#include <filesystem>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sealane/outbox.hpp"
#include "sealane/relay.hpp"

#include "support/eventually.hpp"
#include "support/http_receiver.hpp"
#include "support/journal_file.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"
#include "support/working_folder.hpp"

namespace sealane::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

class RelayFacade : public ::testing::Test {
 protected:
  void SetUp() override { file_.Migrate(); }

  std::string journal() const { return file_.folder() + "/journal.db"; }
  RelayOptions Options() const { return {.store = "sqlite:" + file_.path(), .broker = "journal:" + journal()}; }
  /// As an application does it, one transaction for each.
  void Append(int events, const std::string& type = "OrderPlaced") {
    const SqliteHandle db(file_.path());
    sqlite3_busy_timeout(db.get(), 30'000);
    for (int i = 0; i < events; ++i) {
      db.Execute("BEGIN IMMEDIATE");
      ValueOrThrow(outbox_.Append(
          db.get(), {.topic = "orders", .key = fmt::format("o-{}", ++appended_), .type = type, .payload = "{}"}));
      db.Execute("COMMIT");
    }
  }
  std::size_t Shipped() const {
    std::size_t messages = 0;
    for (const auto& [key, values] : ReadJournal(journal())) messages += values.size();
    return messages;
  }

  static Error Refused(RelayOptions options) {
    const auto opened = Relay::Open(std::move(options));
    EXPECT_FALSE(opened.has_value());
    if (opened) return Error(ErrorKind::kMisuse, "opened", "it was opened");
    EXPECT_FALSE(opened.error().hint().empty()) << opened.error().ToString();
    return opened.error();
  }

  SqliteFile file_;
  const Outbox outbox_{{.producer = "shop"}};
  int appended_ = 0;
};

TEST_F(RelayFacade, ShipsWhatIsThereAndCounts) {
  Append(20);
  auto relay = Relay::Open(Options());
  ASSERT_TRUE(relay) << relay.error().ToString();
  EXPECT_EQ(relay->stats().state, "starting");
  relay->Wake();  // nothing runs: nothing happens
  ASSERT_TRUE(relay->RunUntilDrained());
  const RelayStats stats = relay->stats();
  EXPECT_EQ(stats.state, "stopped");
  EXPECT_EQ(stats.published, 20U);
  EXPECT_EQ(stats.topics.at("orders"), 20U);
  EXPECT_EQ(stats.repeated, 0U);
  EXPECT_EQ(stats.problem, "");
  EXPECT_EQ(Shipped(), 20U);
}

TEST_F(RelayFacade, RunsAgainAndGoesOnWhereItWas) {
  auto relay = ValueOrThrow(Relay::Open(Options()));
  Append(3);
  ASSERT_TRUE(relay.RunUntilDrained());
  Append(1);
  ASSERT_TRUE(relay.RunUntilDrained());
  EXPECT_EQ(relay.stats().published, 1U);
  EXPECT_EQ(Shipped(), 4U);
}

TEST_F(RelayFacade, RelativePathsNameTheSameFilesAfterAChangeOfDirectory) {
  const WorkingFolder first(file_.folder());
  const std::string name = std::filesystem::path(file_.path()).filename();
  auto relay = ValueOrThrow(Relay::Open({.store = "sqlite:" + name, .broker = "journal:journal.db"}));
  const SqliteFile elsewhere;
  const WorkingFolder second(elsewhere.folder());
  Append(3);
  ASSERT_TRUE(relay.RunUntilDrained());
  EXPECT_EQ(Shipped(), 3U);
  EXPECT_FALSE(std::filesystem::exists(elsewhere.folder() + "/journal.db"));
}

TEST_F(RelayFacade, ShipsWhileTheApplicationCommitsAndStopsWhenItsTokenSaysSo) {
  auto relay = ValueOrThrow(Relay::Open(Options()));
  Status end = Error(ErrorKind::kMisuse, "not_ended", "it did not end");
  {
    const std::jthread runner([&](const std::stop_token& stop) { end = relay.Run(stop); });
    for (std::uint64_t round = 1; round <= 3; ++round) {
      Append(1);
      relay.Wake();
      EXPECT_TRUE(Eventually([&] { return relay.stats().published == round; }));
    }
    EXPECT_EQ(relay.stats().state, "running");
    EXPECT_TRUE(Eventually([&] { return relay.stats().live_relays == 1; }));
  }
  EXPECT_TRUE(end);
  EXPECT_EQ(Shipped(), 3U);
}

TEST_F(RelayFacade, StopsFromAnotherThreadAndStaysStopped) {
  auto relay = ValueOrThrow(Relay::Open(Options()));
  Append(3);
  std::thread stopper([&] {
    EXPECT_TRUE(Eventually([&] { return relay.stats().published == 3; }));
    relay.Stop();
  });
  EXPECT_TRUE(relay.Run());
  stopper.join();
  Append(1);
  EXPECT_TRUE(relay.Run()) << "a later run ends at once";
}

TEST_F(RelayFacade, ASecondRunAtTheSameTimeIsMisuse) {
  auto relay = ValueOrThrow(Relay::Open(Options()));
  Append(1);
  const std::jthread runner([&](const std::stop_token& stop) { EXPECT_TRUE(relay.Run(stop)); });
  EXPECT_TRUE(Eventually([&] { return relay.stats().published == 1; }));
  const Status second = relay.Run();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), "relay_runs");
}

TEST_F(RelayFacade, RelaysShareTheLanesOfARoute) {
  const ScratchDatabase database;
  Migrate(database.url());
  RelayOptions options = Options();
  options.store = database.url();
  auto first = ValueOrThrow(Relay::Open(options));
  auto second = ValueOrThrow(Relay::Open(options));
  const std::jthread one([&](const std::stop_token& stop) { EXPECT_TRUE(first.Run(stop)); });
  const std::jthread two([&](const std::stop_token& stop) { EXPECT_TRUE(second.Run(stop)); });
  EXPECT_TRUE(Eventually([&] { return first.stats().lanes == 32 && second.stats().lanes == 32; }));
  EXPECT_TRUE(Eventually([&] { return first.stats().live_relays == 2; }));
  PgSession session(database.url());
  session.Exec(
      "SELECT sealane.emit(topic => 'orders', key => 'o-' || n, type => 'OrderPlaced', payload => '{}')"
      " FROM generate_series(1, 200) n");
  EXPECT_TRUE(Eventually([&] { return first.stats().published + second.stats().published == 200; }));
  EXPECT_EQ(Shipped(), 200U);
  EXPECT_GT(first.stats().published, 0U);
  EXPECT_GT(second.stats().published, 0U);
}

TEST_F(RelayFacade, EachRouteShipsEverythingItLetsPass) {
  Append(2, "OrderPlaced");
  Append(3, "OrderPaid");
  ASSERT_TRUE(ValueOrThrow(Relay::Open(Options())).RunUntilDrained());
  RelayOptions options = Options();
  options.route = "paid";
  options.topic = "copy.${topic}";
  options.filter.types = {"*Paid"};
  auto relay = ValueOrThrow(Relay::Open(options));
  ASSERT_TRUE(relay.RunUntilDrained());
  EXPECT_EQ(relay.stats().published, 3U);
  EXPECT_EQ(relay.stats().filtered, 2U);
  EXPECT_EQ(relay.stats().topics.at("orders"), 3U);
  EXPECT_EQ(Shipped(), 5U + 3U);
}

TEST_F(RelayFacade, ARetryPolicyIsAValueOrAName) {
  HttpReceiver receiver;
  receiver.SetHandler([](const HttpReceiver::Request&) { return HttpReceiver::Answer{.status = 500}; });
  Append(1);
  RelayOptions options = Options();
  options.broker = receiver.url();
  const auto attempts = [&](const std::string& route, std::variant<RetryPolicy, std::string> retry) {
    options.route = route;
    options.retry = std::move(retry);
    const std::size_t before = receiver.requests().size();
    auto relay = ValueOrThrow(Relay::Open(options));
    const std::jthread runner([&](const std::stop_token& stop) { EXPECT_TRUE(relay.Run(stop)); });
    EXPECT_TRUE(Eventually([&] { return relay.stats().dead_total == 1; }));
    return receiver.requests().size() - before;
  };
  EXPECT_EQ(attempts("value", RetryPolicy{.first = 1ms, .max = 1ms, .attempts_max = 2}), 2U);
  EXPECT_EQ(attempts("name", "brief"), 5U);
}

TEST_F(RelayFacade, HeadersGoWithEveryRequest) {
  HttpReceiver receiver;
  Append(1);
  RelayOptions options = Options();
  options.broker = receiver.url();
  options.http_headers = {{"Authorization", "Bearer t-1"}};
  ASSERT_TRUE(ValueOrThrow(Relay::Open(options)).RunUntilDrained());
  ASSERT_EQ(receiver.requests().size(), 1U);
  EXPECT_EQ(receiver.requests()[0].Header("authorization"), "Bearer t-1");
}

TEST_F(RelayFacade, ADestinationThatIsAwayIsWaitedForAndTold) {
  HttpReceiver receiver;
  receiver.Stop();
  Append(1);
  RelayOptions options = Options();
  options.broker = receiver.url();
  auto relay = Relay::Open(options);
  ASSERT_TRUE(relay) << relay.error().ToString();
  const std::jthread runner([&](const std::stop_token& stop) { EXPECT_TRUE(relay->Run(stop)); });
  EXPECT_TRUE(Eventually([&] { return !relay->stats().problem.empty(); }));
  EXPECT_EQ(relay->stats().published, 0U);
  receiver.Start();
  EXPECT_TRUE(Eventually([&] { return relay->stats().published == 1; }));
  EXPECT_EQ(relay->stats().dead_total, 0U);
}

TEST_F(RelayFacade, AnEndWithoutAllAnswersIsInDoubt) {
  HttpReceiver receiver;
  std::latch go(1);
  receiver.SetHandler([&](const HttpReceiver::Request&) {
    go.wait();
    return HttpReceiver::Answer{};
  });
  Append(1);
  RelayOptions options = Options();
  options.broker = receiver.url();
  options.drain_timeout = 10ms;
  auto relay = ValueOrThrow(Relay::Open(options));
  std::thread stopper([&] {
    receiver.AwaitRequests(1);
    relay.Stop();
  });
  const Status end = relay.Run();
  stopper.join();
  go.count_down();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().kind(), ErrorKind::kInDoubt);
  EXPECT_EQ(end.error().code(), "delivery_unresolved");
}

TEST_F(RelayFacade, AWrongStoreUrlIsToldWithoutItsPassword) {
  RelayOptions options = Options();
  options.store = "mysql://app:hunter2@db/shop";
  const Error error = Refused(options);
  EXPECT_EQ(error.kind(), ErrorKind::kMisconfigured);
  EXPECT_EQ(error.code(), "bad_store_url");
  EXPECT_THAT(error.ToString(), Not(HasSubstr("hunter2")));
}

TEST_F(RelayFacade, AWrongBrokerUrlIsTold) {
  RelayOptions options = Options();
  options.broker = "kafak://b1:9092";
  EXPECT_EQ(Refused(options).code(), "bad_broker_url");
  options.broker = "kafka://user:hunter2@b1:9092";
  const Error error = Refused(options);
  EXPECT_EQ(error.field(), "broker");
  EXPECT_THAT(error.hint(), HasSubstr("broker_properties"));
  EXPECT_THAT(error.ToString(), Not(HasSubstr("hunter2")));
}

TEST_F(RelayFacade, APropertyThatWouldBreakAPromiseIsRefused) {
  RelayOptions options = Options();
  options.broker = "kafka://127.0.0.1:1";
  options.broker_properties = {{"acks", "0"}};
  EXPECT_EQ(Refused(options).kind(), ErrorKind::kMisconfigured);
}

TEST_F(RelayFacade, AStoreWithoutTablesSaysHowToMakeThem) {
  RelayOptions options = Options();
  SqliteHandle(file_.folder() + "/empty.db").Execute("CREATE TABLE own (id INTEGER)");
  options.store = "sqlite:" + file_.folder() + "/empty.db";
  EXPECT_THAT(Refused(options).hint(), HasSubstr("sealane migrate up"));
  options.store = "sqlite:" + file_.folder() + "/nowhere.db";
  EXPECT_THAT(Refused(options).hint(), HasSubstr("sealane migrate up"));
  const ScratchDatabase database;
  options.store = database.url();
  EXPECT_THAT(Refused(options).hint(), HasSubstr("sealane migrate up"));
}

TEST_F(RelayFacade, AWrongPasswordIsToldAndNotShown) {
  const ScratchDatabase database;
  Migrate(database.url());
  RelayOptions options = Options();
  options.store = database.UrlAs("pw_user");
  options.store_password = "hunter2";
  const Error error = Refused(options);
  EXPECT_EQ(error.code(), "login_refused");
  EXPECT_THAT(error.ToString(), Not(HasSubstr("hunter2")));
}

TEST_F(RelayFacade, OptionsThatMakeNoSenseAreNamed) {
  const auto field_of = [&](auto change) {
    RelayOptions options = Options();
    change(options);
    const Error error = Refused(options);
    EXPECT_EQ(error.kind(), ErrorKind::kMisconfigured) << error.ToString();
    return error.field();
  };
  EXPECT_EQ(field_of([](RelayOptions& o) { o.retry = "eager"; }), "retry");
  EXPECT_EQ(field_of([](RelayOptions& o) { o.retry = RetryPolicy{.first = 2s, .max = 1s}; }), "retry.max");
  EXPECT_EQ(field_of([](RelayOptions& o) { o.lease = 1ms; }), "lease");
  EXPECT_EQ(field_of([](RelayOptions& o) { o.topic = o.dead_letter_topic = "t"; }), "dead_letter_topic");
  EXPECT_EQ(Refused([&] {
              RelayOptions options = Options();
              options.topic = "${nonsense}";
              return options;
            }())
                .kind(),
            ErrorKind::kMisconfigured);
}

}  // namespace
}  // namespace sealane::testing
