// Protects the way of a webhook over real sockets into a real store: once, durable before it is answered, whatever
// the other clients do.

#include "serve/webhook_server.hpp"

#include <atomic>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/hex.hpp"
#include "base/hmac.hpp"
#include "support/eventually.hpp"
#include "support/http_client.hpp"
#include "support/store_fixture.hpp"

namespace sealane::testing {
namespace {

constexpr std::size_t kBodyMax = std::size_t{1} << 20U;

/// A door in front of a store that a test can shut.
struct Door {
  std::atomic<bool> shut = false;
};

class ShutStore final : public OutboxStore {
 public:
  ShutStore(std::unique_ptr<OutboxStore> store, std::shared_ptr<Door> door)
      : store_(std::move(store)), door_(std::move(door)) {}

  Result<std::unique_ptr<OwnedTransaction>> Begin() override {
    if (door_->shut) return Error(ErrorKind::kUnavailable, "store_away", "the store is away");
    return store_->Begin();
  }
  Result<std::vector<StoredMessage>> ListMessages(const MessageFilter& filter) override {
    return store_->ListMessages(filter);
  }
  Result<std::optional<StoredMessage>> FindMessage(const EventId& id) override { return store_->FindMessage(id); }
  Result<SweepReport> ForgetExpired(std::size_t limit) override { return store_->ForgetExpired(limit); }

 private:
  std::unique_ptr<OutboxStore> store_;
  std::shared_ptr<Door> door_;
};

WebhookRule ShopRule() {
  WebhookRule rule{.provider = "shop", .path = "/hooks/shop", .topic = "shop"};
  rule.signature = {.scheme = SignatureScheme::kHmac, .header = "X-Sig", .secrets = {Secret("s")}};
  rule.id.field = "id";
  rule.fixed_type = "Hook";
  return rule;
}

std::string Body(const std::string& id, const std::string& more = "") {
  return fmt::format(R"({{"id":"{}","more":"{}"}})", id, more);
}

HttpHeaders Signed(const std::string& body, const std::string& secret = "s") {
  return {{"X-Sig", ToHex(HmacSha256(secret, body))}, {"Content-Type", "application/json"}};
}

class WebhookServerTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { fixture_ = MakeStoreFixture(GetParam()); }

  void Start(WebhookServerOptions options = {}, WebhookRule rule = ShopRule()) {
    options.address = {.host = "127.0.0.1", .port = 0};
    options.body_max = kBodyMax;
    options.outage_retry = std::chrono::milliseconds{50};
    auto started = WebhookServer::Start(
        options, {std::move(rule)},
        [this] {
          return MakeOutboxSink(
              {}, [this]() -> Result<std::unique_ptr<OutboxStore>> { return Open(); }, outbox_,
              SystemClock::Instance());
        },
        SystemClock::Instance());
    ASSERT_TRUE(started.has_value()) << started.error().ToString();
    server_ = *std::move(started);
  }

  Result<std::unique_ptr<OutboxStore>> Open() {
    if (door_->shut) return Error(ErrorKind::kUnavailable, "store_away", "the store is away");
    // The fixture's own list of connections is not for several threads.
    const std::lock_guard lock(mutex_);
    return std::unique_ptr<OutboxStore>(std::make_unique<ShutStore>(fixture_->Open(), door_));
  }

  int port() const { return server_->address().port; }
  HttpAnswer Post(const std::string& body) const { return HttpPost(port(), "/hooks/shop", Signed(body), body); }
  std::size_t Events() { return CountEvents(*fixture_->Open()); }
  ProviderStats Shop() const { return server_->stats().providers.at(0); }

  static Outbox MakeOutbox() {
    OutboxOptions options;
    options.limits.payload_max = kBodyMax;
    return Outbox(std::move(options));
  }

  std::mutex mutex_;
  std::unique_ptr<StoreFixture> fixture_;
  std::shared_ptr<Door> door_ = std::make_shared<Door>();
  Outbox outbox_ = MakeOutbox();
  std::unique_ptr<WebhookServer> server_;
};

TEST_P(WebhookServerTest, ADeliveryIsCommittedWhenItIsAnswered) {
  Start();
  const std::string body = Body("e-1");
  const HttpAnswer answer = Post(body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto json = nlohmann::json::parse(answer.body);
  EXPECT_EQ(json.at("duplicate"), false);
  const auto id = EventId::Parse(json.at("event_id").get<std::string>());
  ASSERT_TRUE(id.has_value());
  const auto found = fixture_->Open()->FindMessage(*id);
  ASSERT_TRUE(found.has_value() && *found);
  EXPECT_EQ((*found)->envelope.payload, body);
  EXPECT_EQ((*found)->envelope.topic, "shop");
  EXPECT_EQ((*found)->envelope.key, "e-1");
  EXPECT_EQ((*found)->envelope.type, "Hook");
}

TEST_P(WebhookServerTest, TenRepetitionsAreOneEvent) {
  Start();
  std::set<std::string> ids;
  for (int i = 0; i < 10; ++i) {
    const HttpAnswer answer = Post(Body("e-1"));
    ASSERT_EQ(answer.status, 200) << answer.body;
    const auto json = nlohmann::json::parse(answer.body);
    EXPECT_EQ(json.at("duplicate"), i > 0);
    ids.insert(json.at("event_id"));
  }
  EXPECT_EQ(ids.size(), 1U);
  EXPECT_EQ(Events(), 1U);
  EXPECT_EQ(Shop().accepted, 1U);
  EXPECT_EQ(Shop().duplicates, 9U);
}

TEST_P(WebhookServerTest, TheSameDeliveryTenTimesAtOnceIsOneEvent) {
  Start({.workers = 8});
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> fresh = 0;
    std::vector<std::jthread> clients;
    for (int i = 0; i < 10; ++i) {
      clients.emplace_back([&] {
        const std::string body = Body(fmt::format("e-{}", round));
        HttpAnswer answer = Post(body);
        // The other one may take long on a busy machine; a provider comes again then.
        while (answer.status == 503) answer = Post(body);
        EXPECT_EQ(answer.status, 200) << answer.body;
        if (answer.body.find("\"duplicate\":false") != std::string::npos) ++fresh;
      });
    }
    clients.clear();
    EXPECT_EQ(fresh, 1);
  }
  EXPECT_EQ(Events(), 5U);
}

TEST_P(WebhookServerTest, AnIdWithAnotherBodyIsRefusedAndCounted) {
  Start();
  EXPECT_EQ(Post(Body("e-1", "first")).status, 200);
  const HttpAnswer answer = Post(Body("e-1", "second"));
  EXPECT_EQ(answer.status, 409);
  EXPECT_NE(answer.body.find("event_id_reused"), std::string::npos);
  EXPECT_EQ(Events(), 1U);
  EXPECT_EQ(Shop().conflicts, 1U);
}

TEST_P(WebhookServerTest, AnIdWithAnotherBodyCanBeAnsweredLikeARepetition) {
  WebhookRule rule = ShopRule();
  rule.accept_conflicts = true;
  Start({}, rule);
  EXPECT_EQ(Post(Body("e-1", "first")).status, 200);
  const HttpAnswer answer = Post(Body("e-1", "second"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("\"duplicate\":true"), std::string::npos);
  EXPECT_EQ(Events(), 1U);
  EXPECT_EQ(Shop().conflicts, 1U);
}

TEST_P(WebhookServerTest, WhileTheStoreIsAwayItAsksToComeBackAndThenTakesIt) {
  Start();
  EXPECT_EQ(Post(Body("e-0")).status, 200);
  door_->shut = true;
  HttpAnswer answer = Post(Body("e-1"));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers.at("retry-after"), "5");
  EXPECT_FALSE(server_->stats().store_reachable);
  door_->shut = false;
  // Found again without a delivery: nobody sends one to a server that says it is not ready.
  EXPECT_TRUE(Eventually([&] { return server_->stats().store_reachable; }));
  EXPECT_TRUE(Eventually([&] { return Post(Body("e-1")).status == 200; }));
  EXPECT_EQ(Events(), 2U);
  EXPECT_GE(Shop().deferred, 1U);
}

TEST_P(WebhookServerTest, RefusalsHaveTheirStatusAndLeaveNothing) {
  Start();
  const std::string body = Body("e-1");
  EXPECT_EQ(HttpPost(port(), "/hooks/shop", Signed(body, "wrong"), body).status, 401);
  EXPECT_EQ(HttpPost(port(), "/hooks/shop", {}, body).status, 401);
  EXPECT_EQ(HttpPost(port(), "/hooks/nobody", Signed(body), body).status, 404);
  EXPECT_EQ(HttpPost(port(), "/metrics", {}, "").status, 404);
  const std::string broken = R"({"id":"e-1",)";
  EXPECT_EQ(HttpPost(port(), "/hooks/shop", Signed(broken), broken).status, 400);
  HttpConnection getter(port());
  getter.Send("GET /hooks/shop HTTP/1.1\r\nHost: x\r\n\r\n");
  const HttpAnswer not_allowed = getter.Read();
  EXPECT_EQ(not_allowed.status, 405);
  EXPECT_EQ(not_allowed.headers.at("allow"), "POST");
  HttpConnection garbage(port());
  garbage.Send("\x16\x03\x01 nonsense\r\n\r\n");
  EXPECT_EQ(garbage.Read().status, 400);
  EXPECT_EQ(Events(), 0U);
  EXPECT_EQ(Shop().refused.at("signature_wrong"), 1U);
}

TEST_P(WebhookServerTest, ABodyOverTheLimitIsRefusedWhoeverSaysItsSize) {
  Start();
  const std::string body = Body("e-1", std::string(2 * kBodyMax, 'x'));
  EXPECT_EQ(Post(body).status, 413);
  // Chunked: the size is not known beforehand.
  HttpConnection chunked(port());
  chunked.Send("POST /hooks/shop HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nX-Sig: " +
               Signed(body)[0].second + "\r\n\r\n");
  const std::string chunk(std::size_t{64} << 10U, 'x');
  bool going = true;
  for (int i = 0; i < 32 && going; ++i) going = chunked.Send(fmt::format("{:x}\r\n", chunk.size()) + chunk + "\r\n");
  EXPECT_EQ(chunked.Read().status, 413);
  EXPECT_EQ(Events(), 0U);
  // The largest that is taken.
  std::string fits = Body("e-2");
  fits = Body("e-2", std::string(kBodyMax - fits.size(), 'x'));
  EXPECT_EQ(fits.size(), kBodyMax);
  EXPECT_EQ(Post(fits).status, 200);
}

TEST_P(WebhookServerTest, AConnectionServesSeveralDeliveries) {
  Start();
  HttpConnection connection(port());
  for (int i = 0; i < 3; ++i) {
    const std::string body = Body(fmt::format("e-{}", i));
    ASSERT_TRUE(connection.Send(PostText("/hooks/shop", Signed(body), body)));
    EXPECT_EQ(connection.Read().status, 200);
  }
  EXPECT_EQ(Events(), 3U);
}

TEST_P(WebhookServerTest, InvitesABodyThatWaitsForIt) {
  Start();
  const std::string body = Body("e-1");
  HttpHeaders headers = Signed(body);
  headers.emplace_back("Expect", "100-continue");
  const std::string text = PostText("/hooks/shop", headers, body);
  HttpConnection connection(port());
  connection.Send(text.substr(0, text.size() - body.size()));
  EXPECT_EQ(connection.Read().status, 100);
  connection.Send(body);
  EXPECT_EQ(connection.Read().status, 200);
}

TEST_P(WebhookServerTest, SlowClientsDoNotHoldUpOthersAndAreCutOff) {
  // Long enough for the honest ones on a busy machine.
  Start({.head_max = std::chrono::seconds{3}, .body_time = std::chrono::seconds{3}});
  std::vector<std::unique_ptr<HttpConnection>> slow;
  const std::string body = Body("slow");
  const std::string text = PostText("/hooks/shop", Signed(body), body);
  for (int i = 0; i < 50; ++i) {
    slow.push_back(std::make_unique<HttpConnection>(port()));
    // Some stop in the head, some in the body.
    slow.back()->Send(text.substr(0, i % 2 == 0 ? 20 : text.size() - 1));
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Post(Body(fmt::format("e-{}", i))).status, 200);
  for (const auto& connection : slow) EXPECT_EQ(connection->Read().status, 0);
  EXPECT_TRUE(Eventually([&] { return server_->stats().connections == 0; }));
  EXPECT_EQ(server_->stats().under_way, 0U);
  EXPECT_EQ(server_->stats().timed_out, 50U);
  EXPECT_EQ(Events(), 20U);
}

TEST_P(WebhookServerTest, TooManyRequestsAreAskedToComeBack) {
  Start({.requests_max = 2});
  const std::string body = Body("held");
  const std::string text = PostText("/hooks/shop", Signed(body), body);
  HttpConnection first(port());
  HttpConnection second(port());
  first.Send(text.substr(0, text.size() - 1));
  second.Send(text.substr(0, text.size() - 1));
  ASSERT_TRUE(Eventually([&] { return server_->stats().under_way == 2; }));
  const HttpAnswer answer = Post(Body("e-1"));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.headers.count("retry-after"), 1U);
  first.Send(text.substr(text.size() - 1));
  EXPECT_EQ(first.Read().status, 200);
  EXPECT_EQ(Post(Body("e-1")).status, 200);
}

TEST_P(WebhookServerTest, ConnectionsOverTheLimitAreTurnedAway) {
  Start({.connections_max = 2});
  HttpConnection first(port());
  HttpConnection second(port());
  ASSERT_TRUE(Eventually([&] { return server_->stats().connections == 2; }));
  HttpConnection third(port());
  EXPECT_EQ(third.Read().status, 0);
  EXPECT_EQ(server_->stats().turned_away, 1U);
}

TEST_P(WebhookServerTest, AStopLetsRequestsUnderWayEndAndClosesTheIdle) {
  Start();
  HttpConnection idle(port());
  const std::string body = Body("e-1");
  const std::string text = PostText("/hooks/shop", Signed(body), body);
  HttpConnection busy(port());
  busy.Send(text.substr(0, text.size() - 1));
  ASSERT_TRUE(Eventually([&] { return server_->stats().under_way == 1 && server_->stats().connections == 2; }));
  bool clean = false;
  std::jthread drainer([&] { clean = server_->Drain(std::chrono::seconds{60}); });
  EXPECT_EQ(idle.Read().status, 0);
  EXPECT_TRUE(server_->stats().draining);
  busy.Send(text.substr(text.size() - 1));
  const HttpAnswer answer = busy.Read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  drainer.join();
  EXPECT_TRUE(clean);
  EXPECT_FALSE(HttpConnection(port()).connected());
  EXPECT_EQ(Events(), 1U);
}

TEST_P(WebhookServerTest, AStopDoesNotWaitForEverForASlowClient) {
  Start();
  const std::string body = Body("e-1");
  HttpConnection slow(port());
  const std::string text = PostText("/hooks/shop", Signed(body), body);
  slow.Send(text.substr(0, text.size() - 1));
  ASSERT_TRUE(Eventually([&] { return server_->stats().under_way == 1; }));
  EXPECT_FALSE(server_->Drain(std::chrono::milliseconds{10}));
  server_.reset();
  EXPECT_EQ(slow.Read().status, 0);
}

INSTANTIATE_TEST_SUITE_P(Stores, WebhookServerTest, ::testing::Values("memory", "sqlite", "postgres"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace sealane::testing
