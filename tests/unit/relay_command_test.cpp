// Protects the host of the relays and the command around it, with made-up relays: what is started, stopped, restarted
// and reported.

#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "broker/null_publisher.hpp"
#include "broker_factory.hpp"
#include "commands/relay.hpp"
#include "connect/broker_url.hpp"
#include "daemon/daemon.hpp"
#include "daemon/relay_host.hpp"

namespace sealane::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What happened to made-up relays, by label.
struct Stage {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, int> started;
  std::map<std::string, int> ended;
  std::map<std::string, int> woken;
  std::map<std::string, Error> broken;      // what Check() says
  std::map<std::string, RouteStats> stats;  // what stats() says
  bool unresolved = false;
  bool drains = true;  // --until drained ends by itself

  void Note(std::map<std::string, int>& counts, const std::string& label) {
    const std::lock_guard lock(mutex);
    ++counts[label];
    changed.notify_all();
  }
  int Count(const std::map<std::string, int>& counts, const std::string& label) {
    const std::lock_guard lock(mutex);
    const auto found = counts.find(label);
    return found == counts.end() ? 0 : found->second;
  }
  bool Await(std::map<std::string, int>& counts, const std::string& label, int count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds{30}, [&] { return counts[label] >= count; });
  }
};

class MadeUpWork final : public RouteWork {
 public:
  MadeUpWork(std::string label, Stage& stage) : label_(std::move(label)), stage_(stage) {}

  Status Check() override {
    const auto found = stage_.broken.find(label_);
    return found == stage_.broken.end() ? Ok() : Status(found->second);
  }
  RelayEnd Run(std::stop_token stop, bool until_drained) override {
    stage_.Note(stage_.started, label_);
    if (!until_drained || !stage_.drains) SystemClock::Instance().SleepFor(std::chrono::hours{1}, stop);
    stage_.Note(stage_.ended, label_);
    return stage_.unresolved ? RelayEnd::kUnresolved : RelayEnd::kDrained;
  }
  RouteStats stats() const override {
    RouteStats stats = stage_.stats[label_];
    stats.store = label_.substr(0, label_.find('/'));
    stats.route = label_.substr(label_.find('/') + 1);
    return stats;
  }
  void Wake() override { stage_.Note(stage_.woken, label_); }

 private:
  const std::string label_;
  Stage& stage_;
};

MakeRouteWork MakerOn(Stage& stage) {
  return [&stage](const RouteSetup& setup) { return std::make_unique<MadeUpWork>(setup.label(), stage); };
}

RouteSetup OnRoute(const std::string& route, const std::string& fingerprint = "1") {
  RouteSetup setup;
  setup.options.store = "default";
  setup.options.route = route;
  setup.fingerprint = fingerprint;
  return setup;
}

class RelayHostTest : public ::testing::Test {
 protected:
  void TendUntilIdle() {
    while (!host_.Idle()) {
      std::unique_lock lock(stage_.mutex);
      stage_.changed.wait_for(lock, milliseconds{5});
      lock.unlock();
      host_.Tend();
    }
  }

  Stage stage_;
  RelayHost host_{MakerOn(stage_), [] {}};
};

TEST_F(RelayHostTest, RunsRoutesUntilTheyAreStopped) {
  host_.Start({OnRoute("a"), OnRoute("b")}, false);
  ASSERT_TRUE(stage_.Await(stage_.started, "default/a", 1));
  ASSERT_TRUE(stage_.Await(stage_.started, "default/b", 1));
  EXPECT_FALSE(host_.Idle());
  EXPECT_EQ(host_.Stats().size(), 2U);
  host_.Wake();
  EXPECT_EQ(stage_.woken["default/a"], 1);
  EXPECT_EQ(stage_.woken["default/b"], 1);
  host_.RequestStop();
  TendUntilIdle();
  EXPECT_FALSE(host_.left_unresolved());
  EXPECT_EQ(host_.Stats().size(), 2U) << "their last words are kept";
}

TEST_F(RelayHostTest, RestartsOnlyWhatChanged) {
  host_.Start({OnRoute("same"), OnRoute("changed"), OnRoute("gone")}, false);
  for (const char* label : {"default/same", "default/changed", "default/gone"}) {
    ASSERT_TRUE(stage_.Await(stage_.started, label, 1));
  }
  const ReloadReport report = host_.Reload({OnRoute("same"), OnRoute("changed", "2"), OnRoute("new")});
  EXPECT_THAT(report.restarted, ElementsAre("default/changed"));
  EXPECT_THAT(report.removed, ElementsAre("default/gone"));
  EXPECT_THAT(report.added, ElementsAre("default/new"));
  EXPECT_EQ(report.unchanged, 1U);
  ASSERT_TRUE(stage_.Await(stage_.started, "default/new", 1));
  ASSERT_TRUE(stage_.Await(stage_.ended, "default/changed", 1));
  for (int i = 0; i < 3'000 && stage_.Count(stage_.started, "default/changed") < 2; ++i) {
    host_.Tend();
    std::this_thread::sleep_for(milliseconds{10});
  }
  ASSERT_TRUE(stage_.Await(stage_.started, "default/changed", 2));
  EXPECT_EQ(stage_.Count(stage_.started, "default/same"), 1);
  EXPECT_EQ(stage_.Count(stage_.started, "default/gone"), 1);
  EXPECT_EQ(host_.Reload({OnRoute("same"), OnRoute("changed", "2"), OnRoute("new")}).unchanged, 3U);
  host_.RequestStop();
  TendUntilIdle();
}

TEST_F(RelayHostTest, DoesNotRestartWhatIsAskedToStop) {
  host_.Start({OnRoute("a")}, false);
  ASSERT_TRUE(stage_.Await(stage_.started, "default/a", 1));
  host_.Reload({OnRoute("a", "2")});
  host_.RequestStop();
  TendUntilIdle();
  EXPECT_EQ(stage_.started["default/a"], 1);
}

TEST_F(RelayHostTest, TellsMistakesFromOutages) {
  stage_.broken.emplace("default/away", Error(ErrorKind::kUnavailable, "store_unreachable", "away"));
  EXPECT_TRUE(host_.Check({OnRoute("fine"), OnRoute("away")})) << "the relay keeps trying";
  stage_.broken.emplace("default/bad", Error(ErrorKind::kMisconfigured, "schema_missing", "no tables"));
  const auto checked = host_.Check({OnRoute("fine"), OnRoute("away"), OnRoute("bad")});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code(), "schema_missing");
}

TEST_F(RelayHostTest, RemembersWhatWasLeftUnresolved) {
  stage_.unresolved = true;
  host_.Start({OnRoute("a")}, true);
  TendUntilIdle();
  EXPECT_TRUE(host_.left_unresolved());
}

/// Runs the command in this process with made-up relays.
class RelayCommandTest : public ::testing::Test {
 public:
  struct Outcome {
    Result<ExitCode> result;
    std::string out;
    std::string err;
  };

  Outcome Run(std::function<void(RelayCommandTest&)> choose = {}, OutputFormat format = OutputFormat::kTable) {
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream err;
    Streams streams{.in = in, .out = out, .err = err};
    CommandContext context(streams, environment_, common_, format, false, false);
    const auto command = MakeRelayCommand(MakerOn(stage_));
    options_ = command->Options();
    Set("--broker", "null:");
    Set("--listen", "off");
    if (choose) choose(*this);
    Result<ExitCode> result = command->Run(context);
    return {std::move(result), out.str(), err.str()};
  }
  void Set(const std::string& name, const std::string& value) {
    for (const OptionSpec& option : options_) {
      if (option.names != name) continue;
      if (auto* const* one = std::get_if<std::optional<std::string>*>(&option.target)) **one = value;
      if (auto* const* many = std::get_if<std::vector<std::string>*>(&option.target)) (*many)->push_back(value);
    }
  }

 protected:
  Stage stage_;
  Environment environment_{.variables = {{"SEALANE_STORE__URL", "sqlite:unused.db"}}, .config_candidates = {}};
  CommonOptions common_;
  std::vector<OptionSpec> options_;
};

TEST_F(RelayCommandTest, SumsUpWhatWasDone) {
  stage_.stats["default/main"].published = 1'234;
  stage_.stats["default/main"].repeated = 2;
  stage_.stats["default/main"].parked = 1;
  const Outcome people = Run([](auto& test) { test.Set("--until", "drained"); });
  ASSERT_TRUE(people.result) << people.result.error().ToString();
  EXPECT_EQ(*people.result, ExitCode::kDone);
  EXPECT_EQ(people.out, "");
  EXPECT_THAT(people.err, HasSubstr("drained: 1,234 events in "));
  EXPECT_THAT(people.err, HasSubstr("2 possibly repeated, 1 parked"));
  EXPECT_THAT(people.err, HasSubstr("next: sealane dead list"));
  const Outcome programs = Run([](auto& test) { test.Set("--until", "drained"); }, OutputFormat::kJson);
  const json summary = json::parse(programs.out);
  EXPECT_EQ(summary["published"], 1'234);
  EXPECT_EQ(summary["routes"][0]["route"], "main");
}

TEST_F(RelayCommandTest, FailsWhenMessagesWereLeftWithoutAnAnswer) {
  stage_.unresolved = true;
  const Outcome outcome = Run([](auto& test) { test.Set("--until", "drained"); });
  ASSERT_TRUE(outcome.result);
  EXPECT_EQ(*outcome.result, ExitCode::kFailed);
}

TEST_F(RelayCommandTest, GivesUpAtItsLimitAndSaysWhy) {
  stage_.drains = false;
  common_.timeout = "50ms";
  const Outcome plain = Run([](auto& test) { test.Set("--until", "drained"); });
  ASSERT_FALSE(plain.result);
  EXPECT_EQ(ExitCodeOf(plain.result.error()), ExitCode::kTimedOut);
  stage_.stats["default/main"].state = RelayState::kHolding;
  stage_.stats["default/main"].problem = "nobody answers at b1:9092";
  const Outcome broker = Run([](auto& test) { test.Set("--until", "drained"); });
  ASSERT_FALSE(broker.result);
  EXPECT_EQ(ExitCodeOf(broker.result.error()), ExitCode::kBrokerUnreachable);
  EXPECT_THAT(broker.result.error().message(), HasSubstr("nobody answers at b1:9092"));
  stage_.stats["default/main"].state = RelayState::kStarting;
  stage_.stats["default/main"].problem_code = "store_unreachable";
  const Outcome store = Run([](auto& test) { test.Set("--until", "drained"); });
  ASSERT_FALSE(store.result);
  EXPECT_EQ(ExitCodeOf(store.result.error()), ExitCode::kStoreUnreachable);
}

TEST_F(RelayCommandTest, EndsAtOnceForAMistakeOfTheOnlyRoute) {
  stage_.broken.emplace("default/main", Error(ErrorKind::kMisconfigured, "schema_missing", "no tables"));
  const Outcome outcome = Run();
  ASSERT_FALSE(outcome.result);
  EXPECT_EQ(ExitCodeOf(outcome.result.error()), ExitCode::kSchemaMissing);
  EXPECT_TRUE(stage_.started.empty());
}

TEST_F(RelayCommandTest, RunsOnWithAMistakeOfOneOfSeveralAndStopsBySignal) {
  environment_.variables["SEALANE_ROUTE__A__FAIR"] = "true";
  environment_.variables["SEALANE_ROUTE__B__FAIR"] = "true";
  stage_.broken.emplace("default/a", Error(ErrorKind::kMisconfigured, "schema_missing", "no tables"));
  std::jthread operator_hand([this] {
    // Started before the command blocks its signals: without this the signal would end the test right here.
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    ASSERT_TRUE(stage_.Await(stage_.started, "default/a", 1));
    ASSERT_TRUE(stage_.Await(stage_.started, "default/b", 1));
    ::kill(::getpid(), SIGTERM);
  });
  const Outcome outcome = Run();
  ASSERT_TRUE(outcome.result) << outcome.result.error().ToString();
  EXPECT_EQ(*outcome.result, ExitCode::kDone);
}

TEST_F(RelayCommandTest, ChecksItsFlags) {
  EXPECT_EQ(Run([](auto& test) { test.Set("--until", "tomorrow"); }).result.error().code(), "bad_usage");
  EXPECT_EQ(Run([](auto& test) { test.Set("--route", "mian"); }).result.error().code(), "bad_usage");
  EXPECT_EQ(Run([](auto& test) { test.Set("--broker", "rabbit:x"); }).result.error().code(), "bad_usage");
}

TEST(BrokerUrl, NamesEveryDestination) {
  EXPECT_EQ(ParseBrokerUrl("kafka://a:9092,b:9092/")->location, "a:9092,b:9092");
  EXPECT_EQ(ParseBrokerUrl("journal:/var/j.db")->location, "/var/j.db");
  EXPECT_EQ(ParseBrokerUrl("https://x/y")->kind, BrokerKind::kHttp);
  EXPECT_EQ(ParseBrokerUrl("stdout:")->kind, BrokerKind::kStdout);
  EXPECT_EQ(ParseBrokerUrl("null:")->kind, BrokerKind::kNull);
  for (const char* url : {"", "kafka://", "kafka://user:canary@h", "kafka://a,,b", "kafka://a/topic",
                          "journal:", "journal://x", "http://", "rabbit://x", "stdout"}) {
    const auto target = ParseBrokerUrl(url);
    ASSERT_FALSE(target) << url;
    EXPECT_EQ(target.error().code(), "bad_broker_url");
    EXPECT_FALSE(target.error().hint().empty()) << url;
    EXPECT_EQ(target.error().ToString().find("canary"), std::string::npos);
  }
}

TEST(NullPublisher, TakesEverythingAndWakesUp) {
  const auto publisher = MakeNullPublisher();
  for (std::uint64_t token = 1; token <= 3; ++token) {
    ASSERT_EQ(
        publisher->Submit({.token = token, .event_id = {}, .topic = "t", .key = {}, .value = {}, .headers = {}}),
        Submitted::kTaken);
  }
  std::vector<Delivery> deliveries;
  publisher->Collect(deliveries, milliseconds{0});
  ASSERT_EQ(deliveries.size(), 3U);
  EXPECT_EQ(deliveries[2].token, 3U);
  EXPECT_EQ(deliveries[2].status, DeliveryStatus::kPersisted);
  publisher->Interrupt();
  publisher->Collect(deliveries, std::chrono::hours{1});
}

TEST(ProgressText, TellsTheWorst) {
  RouteStats a;
  a.published = 1'000;
  a.oldest_pending_seconds = 2.5;
  RouteStats b;
  b.store = "eu";
  b.route = "main";
  b.published = 234'567;
  b.parked = 3;
  b.state = RelayState::kHolding;
  b.problem = "away";
  EXPECT_EQ(ProgressText({a, b}, 1'240.4),
            "235,567 published, 1,240/s, oldest waits 2.5 s, 3 parked; eu/main holding: away");
}

}  // namespace
}  // namespace sealane::cli
