// Protects examples/cpq, which readers copy: from a quote to a bill, each step happens once, whatever is delivered
// again, whoever handles it, and however the billing system behaves. On every pair of store and broker.

#include <condition_variable>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sealane/relay.hpp"

#include "support/consume_place.hpp"
#include "support/eventually.hpp"
#include "support/http_receiver.hpp"
#include "support/kafka_cluster.hpp"
#include "support/running_program.hpp"

namespace sealane::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;
using Answer = HttpReceiver::Answer;
using Request = HttpReceiver::Request;

constexpr const char* kExample = SEALANE_TEST_SOURCE_DIR "/examples/cpq";

/// The billing system and the workflow engine in one. Billing keeps idempotency keys: the first request with a key
/// that it takes is a charge, all others get the same answer.
class Outside {
 public:
  Outside() {
    receiver_.SetHandler([this](const Request& request) {
      return request.target == "/charges" ? Charge(request) : StartProcess(request);
    });
  }
  ~Outside() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    released_.notify_all();
    receiver_.Stop();
  }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

  std::string url() const { return receiver_.url(""); }
  /// How often each order was charged, and how often that was asked for.
  std::map<std::string, int> charges() const {
    const std::lock_guard lock(mutex_);
    return charges_;
  }
  int RequestsFor(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = requests_.find(key);
    return found == requests_.end() ? 0 : found->second;
  }
  std::vector<json> processes() const {
    const std::lock_guard lock(mutex_);
    return processes_;
  }
  /// From now on: 503; a charge whose answer is lost; an answer that comes too late; then all is well.
  void Misbehave() {
    const std::lock_guard lock(mutex_);
    misbehaves_ = true;
  }

 private:
  Answer Charge(const Request& request) {
    const std::string key = request.Header("idempotency-key");
    std::unique_lock lock(mutex_);
    const int nth = ++requests_[key];
    if (json::parse(request.body)["customer"] == "nobody") return {.status = 400, .body = "{}"};
    if (misbehaves_ && nth == 1) return {.status = 503};
    if (charged_.emplace(key, request.body).second) ++charges_[key];
    EXPECT_EQ(charged_[key], request.body) << "the same wish under the same key";
    if (misbehaves_ && nth == 2) return {.hang_up = true};
    if (misbehaves_ && nth == 3) released_.wait(lock, [this] { return over_; });
    return {.body = R"({"charged":true})"};
  }
  Answer StartProcess(const Request& request) {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(request.target, "/v2/process-instances");
    processes_.push_back(json::parse(request.body));
    return {.body = fmt::format(R"({{"processInstanceKey":"{}"}})", 4710 + processes_.size())};
  }

  mutable std::mutex mutex_;
  std::condition_variable released_;
  bool over_ = false;
  bool misbehaves_ = false;
  std::map<std::string, int> requests_;
  std::map<std::string, int> charges_;
  std::map<std::string, std::string> charged_;
  std::vector<json> processes_;
  HttpReceiver receiver_;
};

class ExampleCpq : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgres_kafka") SEALANE_REQUIRE_KAFKA();
    place_ = std::make_unique<ConsumePlace>(GetParam());
    std::ifstream schema(std::string(kExample) + "/schema.sql");
    place_->Execute({std::istreambuf_iterator<char>(schema), {}});
    if (!place_->is_kafka()) return;
    for (const char* topic : {".quotes", ".orders", ".tasks"}) {
      CreateTopic(place_->broker_url(), place_->topic() + topic, 2);
    }
  }

  std::map<std::string, std::string> Variables(const std::string& member = {}) const {
    return {{"CPQ_PREFIX", place_->topic()}, {"CPQ_MEMBER", member}};
  }
  CommandResult Desk(const Words& words) const {
    Words command = {EXAMPLE_CPQ_DESK, place_->store_url()};
    command.insert(command.end(), words.begin(), words.end());
    return ChildProcess(command, Variables(), place_->folder()).Finish();
  }
  void Move(const Words& words) const {
    const CommandResult moved = Desk(words);
    EXPECT_EQ(moved.code, 0) << words[0] << ": " << moved.out << moved.err;
  }
  void Accept(const std::string& quote, const std::string& customer = "acme") const {
    Move({"submit", quote, customer, "4200"});
    Move({"approve", quote});
    Move({"accept", quote});
  }

  /// Its own in each test: a group at a broker outlives the test.
  std::string Consumer(const std::string& name) const { return place_->topic() + "-" + name; }

  // Programs that run beside the test.
  std::unique_ptr<RunningProgram> Start(const std::string& name, const Words& command,
                                        const std::map<std::string, std::string>& variables) const {
    return std::make_unique<RunningProgram>(name, command, variables, place_->folder());
  }
  std::unique_ptr<RunningProgram> StartRelay() const {
    return Start("relay",
                 {SEALANE_TEST_BINARY, "relay", "--listen", "off", "--store", place_->store_url(), "--broker",
                  place_->broker_url()},
                 {});
  }
  std::unique_ptr<RunningProgram> StartConsumer() const {
    return Start("consumer", {EXAMPLE_CPQ_CONSUMER, place_->store_url(), place_->broker_url(), Consumer("cpq")},
                 Variables("m-1"));
  }
  /// With the example's configuration, in a hurry. A short timeout is for tests in which billing does not answer: a
  /// machine that stalls exceeds it too, and the request comes again.
  std::unique_ptr<RunningProgram> StartTasks(const std::string& timeout = "30s") const {
    return Start(
        "tasks",
        {SEALANE_TEST_BINARY, "tasks", "run", "--config", std::string(kExample) + "/sealane.toml", "--store",
         place_->store_url(), "--target", "billing=" + outside_.url(), "--target", "fulfilment=" + outside_.url()},
        {{"SEALANE_TARGET__BILLING__TIMEOUT", timeout},
         {"SEALANE_TARGET__BILLING__RETRY__FIRST", "100ms"},
         {"SEALANE_TARGET__BILLING__RETRY__MAX", "300ms"}});
  }

  /// Everything that was committed, or once more everything that ever was, under another route.
  void Ship(const std::string& route = "main") const {
    auto relay =
        ValueOrThrow(Relay::Open({.store = place_->store_url(), .broker = place_->broker_url(), .route = route}));
    EXPECT_TRUE(relay.RunUntilDrained());
  }
  /// What this consumer says when it has seen everything.
  std::string CatchUp(const std::string& consumer) const {
    const CommandResult run = ChildProcess({EXAMPLE_CPQ_CONSUMER, place_->store_url(), place_->broker_url(),
                                            Consumer(consumer), "caught-up"},
                                           Variables(), place_->folder())
                                  .Finish();
    EXPECT_EQ(run.code, 0) << run.err;
    return run.out;
  }

  std::string Text(const std::string& sql) const {
    const auto rows = place_->Query(sql);
    return rows.empty() ? "none" : rows[0][0];
  }
  std::string Billing(const std::string& order) const {
    return Text(fmt::format("SELECT billing FROM customer_order WHERE id = '{}'", order));
  }
  std::int64_t Count(const std::string& from) const { return place_->Number("SELECT count(*) FROM " + from); }
  std::int64_t Events(const std::string& type) const {
    return Count(fmt::format("{} WHERE type = '{}'", place_->Table("outbox"), type));
  }

  std::unique_ptr<ConsumePlace> place_;
  Outside outside_;
};

TEST_P(ExampleCpq, AQuoteBecomesAnOrderThatIsFulfilledAndBilled) {
  const auto relay = StartRelay();
  const auto consumer = StartConsumer();
  const auto tasks = StartTasks();
  Move({"submit", "Q-1", "acme", "4200"});
  EXPECT_TRUE(Eventually([&] { return Text("SELECT status FROM approval_case WHERE quote_id = 'Q-1'") == "OPEN"; }))
      << consumer->said();
  EXPECT_EQ(Desk({"accept", "Q-1"}).code, 1) << "it is not approved";
  Move({"approve", "Q-1"});
  EXPECT_TRUE(
      Eventually([&] { return Text("SELECT status FROM approval_case WHERE quote_id = 'Q-1'") == "CLOSED"; }));
  EXPECT_EQ(Count("customer_order"), 0);
  Move({"accept", "Q-1"});
  EXPECT_TRUE(Eventually([&] { return Text("SELECT process_instance FROM customer_order") == "4711"; }))
      << consumer->said() << tasks->said();
  ASSERT_EQ(outside_.processes().size(), 1U);
  EXPECT_EQ(outside_.processes()[0]["processDefinitionId"], "order-fulfilment");
  EXPECT_EQ(outside_.processes()[0]["variables"]["businessKey"], "O-Q-1");
  EXPECT_EQ(Billing("O-Q-1"), "NOT_DUE");
  Move({"complete", "O-Q-1"});
  EXPECT_TRUE(Eventually([&] { return Billing("O-Q-1") == "CHARGED"; })) << tasks->said();
  EXPECT_EQ(outside_.charges(), (std::map<std::string, int>{{"O-Q-1", 1}}));

  // The order names what caused it, and all of it belongs together.
  const std::string outbox = place_->Table("outbox");
  EXPECT_EQ(Text("SELECT causation_id FROM " + outbox + " WHERE type = 'OrderCreated'"),
            Text("SELECT event_id FROM " + place_->Table("outbox_status") + " WHERE type = 'QuoteAccepted'"));
  EXPECT_EQ(Text("SELECT correlation_id FROM " + outbox + " WHERE type = 'OrderCreated'"), "Q-1");
}

TEST_P(ExampleCpq, AcceptedTwiceAndSeenByTwoConsumersAQuoteIsOneOrder) {
  constexpr int kQuotes = 3;
  for (int i = 0; i < kQuotes; ++i) Accept(fmt::format("Q-{}", i));
  Ship();
  Ship("again");
  const auto both = [&] {
    const std::jthread other([&] { CatchUp("cpq-by-mistake"); });
    return CatchUp("cpq");
  };
  EXPECT_THAT(both(), HasSubstr(fmt::format("{} known already", 3 * kQuotes)));
  EXPECT_EQ(Count("customer_order"), kQuotes);
  EXPECT_EQ(Events("OrderCreated"), kQuotes);
  Ship();
  Ship("again");
  both();
  EXPECT_EQ(Count(place_->Table("task")), kQuotes) << "the start of a process, asked for by both";
  EXPECT_EQ(Count("customer_order"), kQuotes);
  EXPECT_EQ(Count("approval_case WHERE status = 'CLOSED'"), kQuotes);
}

TEST_P(ExampleCpq, HoweverBillingBehavesAnOrderIsChargedOnce) {
  outside_.Misbehave();
  Accept("Q-1");
  const auto relay = StartRelay();
  const auto consumer = StartConsumer();
  EXPECT_TRUE(Eventually([&] { return Count("customer_order") == 1; })) << consumer->said();
  Move({"complete", "O-Q-1"});
  const auto tasks = StartTasks("1s");
  EXPECT_TRUE(Eventually([&] { return Billing("O-Q-1") == "CHARGED"; })) << tasks->said();
  EXPECT_EQ(outside_.charges(), (std::map<std::string, int>{{"O-Q-1", 1}}));
  EXPECT_GE(outside_.RequestsFor("O-Q-1"), 4);
}

TEST_P(ExampleCpq, WhatBillingRefusesIsAskedOnceAndIsForAPerson) {
  Accept("Q-1");
  Accept("Q-2", "nobody");
  const auto relay = StartRelay();
  const auto consumer = StartConsumer();
  EXPECT_TRUE(Eventually([&] { return Count("customer_order") == 2; })) << consumer->said();
  Move({"complete", "O-Q-1"});
  Move({"complete", "O-Q-2"});
  const auto tasks = StartTasks();
  EXPECT_TRUE(Eventually([&] { return Billing("O-Q-1") == "CHARGED"; })) << tasks->said();
  EXPECT_TRUE(Eventually([&] { return Billing("O-Q-2") == "FAILED"; })) << tasks->said();
  EXPECT_EQ(outside_.charges(), (std::map<std::string, int>{{"O-Q-1", 1}}));
  EXPECT_EQ(outside_.RequestsFor("O-Q-2"), 1);
}

TEST_P(ExampleCpq, AConsumerThatIsKilledMakesNoSecondOrderAndForgetsNone) {
  constexpr int kQuotes = 6;
  const auto relay = StartRelay();
  auto consumer = StartConsumer();
  for (int i = 0; i < kQuotes; ++i) {
    Accept(fmt::format("Q-{}", i));
    if (i % 3 != 1) continue;
    EXPECT_TRUE(Eventually([&] { return Count("customer_order") > i / 2; })) << consumer->said();
    consumer->Kill();
    consumer = StartConsumer();
  }
  EXPECT_TRUE(Eventually([&] { return Count("customer_order") == kQuotes; })) << consumer->said();
  EXPECT_TRUE(Eventually([&] { return Count(place_->Table("task")) == kQuotes; })) << consumer->said();
  EXPECT_EQ(Events("OrderCreated"), kQuotes);
}

TEST_P(ExampleCpq, AnEventThatMakesNoSenseIsSetAsideAndHoldsUpItsQuoteAlone) {
  const CommandResult emitted = RunSealane({"emit", "--topic", place_->topic() + ".quotes", "--key", "Q-1", "--type",
                                            "QuoteAccepted", "--payload", "{}", "--store", place_->store_url()});
  ASSERT_EQ(emitted.code, 0) << emitted.err;
  Accept("Q-1");
  Accept("Q-2");
  Ship();
  CatchUp("cpq");
  EXPECT_EQ(Text("SELECT quote_id FROM customer_order"), "Q-2");
  EXPECT_EQ(Count("customer_order"), 1);
  EXPECT_EQ(Count(place_->Table("inbox_parked") + " WHERE error_code = 'invalid_payload'"), 1);
}

TEST_P(ExampleCpq, TheDeskRefusesWhatIsOutOfOrderAndTellsNothing) {
  Move({"submit", "Q-1", "acme", "4200"});
  EXPECT_EQ(Desk({"submit", "Q-1", "other", "1"}).code, 1) << "there is one already";
  EXPECT_EQ(Desk({"accept", "Q-1"}).code, 1);
  EXPECT_EQ(Desk({"complete", "O-Q-1"}).code, 1);
  for (const char* total : {"cheap", "42abc", "-5", "+5", " 5", "", "99999999999999999999"}) {
    const CommandResult refused = Desk({"submit", "Q-2", "acme", total});
    EXPECT_EQ(refused.code, 2) << total;
    EXPECT_THAT(refused.err, HasSubstr(fmt::format("`{}` is no total", total)));
  }
  EXPECT_EQ(Desk({"sell", "Q-1"}).code, 2);
  EXPECT_EQ(Count(place_->Table("outbox")), 1);
  EXPECT_EQ(Count("quote"), 1);
}

INSTANTIATE_TEST_SUITE_P(Places, ExampleCpq, ::testing::Values("sqlite_journal", "postgres_kafka"),
                         [](const auto& place) { return place.param; });

}  // namespace
}  // namespace sealane::testing
