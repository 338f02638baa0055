// Protects examples/order_service, which readers copy: however often a request is sent and whenever the service dies,
// there is one order, one audit record and one event for it, on every pair of store and broker.

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include "sealane/relay.hpp"

#include "support/consume_place.hpp"
#include "support/eventually.hpp"
#include "support/http_client.hpp"
#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"
#include "support/running_program.hpp"

namespace sealane::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kOrder = R"({"customer":"c-1","items":[{"sku":"A","quantity":2,"price":1050}]})";
constexpr const char* kOther = R"({"customer":"c-2","items":[{"sku":"B","quantity":1,"price":99}]})";

std::string Schema() {
  std::ifstream file(SEALANE_TEST_SOURCE_DIR "/examples/order_service/schema.sql");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What a process has used so far.
std::chrono::milliseconds ProcessorTime(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  std::istringstream words(line.substr(line.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) words >> skipped;
  long user = 0;
  long system = 0;
  words >> user >> system;
  return std::chrono::milliseconds{(user + system) * 1'000 / ::sysconf(_SC_CLK_TCK)};
}

class ExampleOrderService : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgres_kafka") SEALANE_REQUIRE_KAFKA();
    place_ = std::make_unique<ConsumePlace>(GetParam());
    place_->Execute(Schema());
  }

  std::unique_ptr<RunningProgram> Launch(const std::string& store, const std::string& broker) const {
    return std::make_unique<RunningProgram>(
        "service", std::vector<std::string>{EXAMPLE_ORDER_SERVICE, "0", store, broker, place_->topic()},
        std::map<std::string, std::string>{}, place_->folder());
  }
  void Start(const std::string& broker) {
    service_ = Launch(place_->store_url(), broker);
    port_ = service_->PortAfter("listening on http://127.0.0.1:");
    ASSERT_NE(port_, 0);
  }
  void Start() { Start(place_->broker_url()); }
  /// kill -9, in the middle of whatever it does.
  void Kill() {
    port_ = 0;  // nobody may ask whoever gets the port next
    service_->Kill();
  }

  HttpAnswer Post(const std::string& key, const std::string& body) const {
    return HttpPost(port_, "/orders", {{"Idempotency-Key", key}}, body);
  }
  /// As a client does it that wants its order: with the same key until there is an answer that says yes or no.
  HttpAnswer Insist(const std::string& key, const std::string& body) const {
    HttpAnswer answer;
    EXPECT_TRUE(Eventually([&] {
      answer = Post(key, body);
      return answer.status != 0 && answer.status != 409 && answer.status != 503;
    }));
    return answer;
  }
  HttpAnswer Get(const std::string& target) const {
    HttpConnection connection(port_);
    connection.Send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
    return connection.Read();
  }

  std::int64_t Count(const std::string& table) const { return place_->Number("SELECT count(*) FROM " + table); }
  bool Published(std::int64_t events) const {
    return Eventually(
        [&] { return Count(place_->Table("outbox_status") + " WHERE status = 'PUBLISHED'") == events; });
  }
  /// Everything that was ever appended once more, as after a replay.
  void DeliverAgain() const {
    auto again =
        ValueOrThrow(Relay::Open({.store = place_->store_url(), .broker = place_->broker_url(), .route = "again"}));
    EXPECT_TRUE(again.RunUntilDrained());
  }
  std::int64_t EffectsAtAConsumer() const {
    // Of this test alone: a group at a broker outlives the test.
    const std::string reader = place_->topic() + "-reader";
    const CommandResult run = place_->CatchUp(reader);
    EXPECT_EQ(run.code, 0) << run.err;
    return place_->CountEffects(reader);
  }

  std::unique_ptr<ConsumePlace> place_;
  std::unique_ptr<RunningProgram> service_;
  std::atomic<int> port_{0};
};

TEST_P(ExampleOrderService, TheSameRequestAgainGetsTheSameAnswerAndAnotherOneIsRefused) {
  Start();
  const HttpAnswer first = Post("k-1", kOrder);
  ASSERT_EQ(first.status, 201) << first.body << service_->said();
  const std::string id = json::parse(first.body)["order_id"];
  EXPECT_EQ(Post("k-1", kOrder).body, first.body);
  EXPECT_EQ(Post("k-1", kOther).status, 422);
  EXPECT_EQ(json::parse(Get("/orders/" + id).body),
            json::parse(fmt::format(R"({{"order_id":"{}","customer":"c-1","status":"CREATED","total":2100,
                                         "items":[{{"sku":"A","quantity":2,"price":1050}}]}})",
                                    id)));
  Kill();
  Start();
  const HttpAnswer replayed = Post("k-1", kOrder);
  EXPECT_EQ(replayed.status, 201);
  EXPECT_EQ(replayed.body, first.body) << "the answer outlives the process";
  EXPECT_TRUE(Published(1));
  EXPECT_EQ(service_->Stop(), 0) << service_->said();
  EXPECT_EQ(Count("orders"), 1);
  EXPECT_EQ(Count("order_audit"), 1);
  EXPECT_EQ(EffectsAtAConsumer(), 1);
}

TEST_P(ExampleOrderService, WhatIsNoOrderLeavesNothingBehind) {
  Start();
  EXPECT_EQ(HttpPost(port_, "/orders", {}, kOrder).status, 400) << "without a key";
  EXPECT_EQ(Post(std::string(2'000, 'k'), kOrder).status, 400) << "a key that is too long";
  for (const char* body : {"", "[]", "{", R"({"customer":"c"})", R"({"customer":"c","items":[]})",
                           R"({"customer":"c","items":[{"sku":"A","quantity":0,"price":1}]})",
                           R"({"customer":"c","items":[{"sku":"A","quantity":1,"price":1.5}]})"}) {
    EXPECT_EQ(Post("k-1", body).status, 400) << body;
  }
  EXPECT_EQ(Get("/orders/none").status, 404);
  EXPECT_EQ(Get("/").status, 404);
  EXPECT_EQ(Count("orders"), 0);
  EXPECT_EQ(Count(place_->Table("outbox")), 0);
  EXPECT_EQ(Post("k-1", kOrder).status, 201) << "the key is still free";
}

TEST_P(ExampleOrderService, ManyClientsWithOneKeyGetOneOrder) {
  Start();
  constexpr int kClients = 12;
  std::vector<std::string> answers(kClients);
  {
    std::vector<std::jthread> clients;
    for (std::string& answer : answers) {
      clients.emplace_back([&] { answer = Insist("k-1", kOrder).body; });
    }
  }
  EXPECT_THAT(answers, ::testing::Each(answers[0]));
  EXPECT_THAT(answers[0], HasSubstr("order_id"));
  EXPECT_EQ(Count("orders"), 1);
  EXPECT_EQ(Count("order_audit"), 1);
  EXPECT_EQ(Count(place_->Table("outbox")), 1);
}

TEST_P(ExampleOrderService, KilledWhileOrdersComeInEachIsTakenAndPublishedOnce) {
  constexpr int kClients = 4;
  constexpr int kEach = 8;
  Start();
  std::atomic<int> taken{0};
  {
    std::vector<std::jthread> clients;
    for (int client = 0; client < kClients; ++client) {
      clients.emplace_back([&, client] {
        for (int i = 0; i < kEach; ++i) {
          EXPECT_EQ(Insist(fmt::format("k-{}-{}", client, i), kOrder).status, 201);
          ++taken;
        }
      });
    }
    for (const int when : {5, 15, 25}) {
      EXPECT_TRUE(Eventually([&] { return taken >= when; }));
      Kill();
      Start();
    }
  }
  EXPECT_TRUE(Published(kClients * kEach));
  EXPECT_EQ(Count("orders"), kClients * kEach);
  EXPECT_EQ(Count("order_audit"), kClients * kEach);
  EXPECT_EQ(Count(place_->Table("outbox")), kClients * kEach);
  EXPECT_EQ(place_->Number("SELECT count(DISTINCT request_key) FROM order_audit"), kClients * kEach);
  DeliverAgain();
  EXPECT_EQ(EffectsAtAConsumer(), kClients * kEach);
}

TEST_P(ExampleOrderService, AnOrderTakenWhileTheBrokerIsAwayIsPublishedAfterAKill) {
  Start("kafka://127.0.0.1:1");
  ASSERT_EQ(Post("k-1", kOrder).status, 201);
  Kill();
  EXPECT_EQ(Count(place_->Table("outbox_status") + " WHERE status = 'PUBLISHED'"), 0);
  Start();
  EXPECT_TRUE(Published(1));
  EXPECT_EQ(EffectsAtAConsumer(), 1);
}

// Connections that say nothing are closed by the service after a few seconds; until then no other can be accepted,
// and the attempts to do so must not cost a processor.
TEST_P(ExampleOrderService, OutOfDescriptorsItWaitsInsteadOfSpinning) {
  Start();
  ASSERT_EQ(Post("k-1", kOrder).status, 201);
  const auto open = std::distance(std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", service_->pid())),
                                  std::filesystem::directory_iterator());
  rlimit usual{};
  ASSERT_EQ(::prlimit(service_->pid(), RLIMIT_NOFILE, nullptr, &usual), 0);
  const rlimit few{.rlim_cur = static_cast<rlim_t>(open) + 3, .rlim_max = usual.rlim_max};
  ASSERT_EQ(::prlimit(service_->pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  const auto before = ProcessorTime(service_->pid());
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<HttpConnection>> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(std::make_unique<HttpConnection>(port_));
  EXPECT_EQ(idle.front()->Read().status, 0) << "closed after its time";
  const auto passed = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(ProcessorTime(service_->pid()) - before, passed / 10);
  idle.clear();
  ASSERT_EQ(::prlimit(service_->pid(), RLIMIT_NOFILE, &usual, nullptr), 0);
  EXPECT_EQ(Insist("k-2", kOrder).status, 201) << "it accepts again";
  EXPECT_EQ(service_->Stop(), 0) << service_->said();
}

TEST_P(ExampleOrderService, SaysWhichTablesAreMissing) {
  place_->Execute("DROP TABLE order_audit; DROP TABLE orders");
  const auto own = Launch(place_->store_url(), place_->broker_url());
  EXPECT_TRUE(own->Says("was schema.sql applied"));
  std::unique_ptr<ScratchDatabase> database;
  std::string store = "sqlite:" + place_->folder() + "/empty.db";
  if (GetParam() == "postgres_kafka") {
    database = std::make_unique<ScratchDatabase>();
    store = database->url();
    PgSession(store).Exec(Schema());
  } else {
    SqliteHandle(place_->folder() + "/empty.db").Execute(Schema());
  }
  const auto ours = Launch(store, place_->broker_url());
  EXPECT_TRUE(ours->Says("sealane migrate up"));
}

INSTANTIATE_TEST_SUITE_P(Places, ExampleOrderService, ::testing::Values("sqlite_journal", "postgres_kafka"),
                         [](const auto& place) { return place.param; });

}  // namespace
}  // namespace sealane::testing
