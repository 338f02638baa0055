// Protects the probes: what each says in which state, and that the server stays bounded whatever a client does.

#include <mutex>
#include <thread>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/http_server.hpp"
#include "serve/probe_server.hpp"
#include "support/eventually.hpp"
#include "support/http_client.hpp"

namespace sealane {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

RouteStats InState(RelayState state, const std::string& problem = {}) {
  RouteStats stats;
  stats.store = "default";
  stats.route = "main";
  stats.state = state;
  stats.problem = problem;
  stats.last_beat_at = Timestamp{seconds{1'000}};
  return stats;
}

ProbeAnswer Ask(const std::string& target, const std::vector<RouteStats>& relays, const std::string& method = "GET",
                Timestamp now = Timestamp{seconds{1'001}}) {
  static const BuildInfo kBuild = {{"version", "1"}};
  return AnswerProbe(method, target, {.relays = relays, .build = &kBuild, .now = now, .beat_max = seconds{30}});
}

TEST(Readyz, IsReadyWhenAnyRouteCanWork) {
  using enum RelayState;
  EXPECT_EQ(Ask("/readyz", {}).status, 503);
  EXPECT_EQ(Ask("/readyz", {InState(kRunning)}).status, 200);
  EXPECT_EQ(Ask("/readyz", {InState(kPaused)}).status, 200);
  EXPECT_EQ(Ask("/readyz", {InState(kHolding, "broker away")}).status, 200) << "a restart would not bring it back";
  EXPECT_EQ(Ask("/readyz", {InState(kStarting)}).status, 200) << "a standby";
  EXPECT_EQ(Ask("/readyz", {InState(kStarting, "store away")}).status, 503);
  EXPECT_EQ(Ask("/readyz", {InState(kDraining)}).status, 503);
  RouteStats without_store = InState(kHolding, "store away");
  without_store.store_reachable = false;
  EXPECT_EQ(Ask("/readyz", {without_store}).status, 503);
  EXPECT_EQ(Ask("/readyz", {InState(kStarting, "store away"), InState(kRunning)}).status, 200);
}

TEST(Readyz, NamesTheProblemOfEachRoute) {
  const json answer = json::parse(Ask("/readyz?verbose", {InState(RelayState::kStarting, "no \"db\"\n")}).body);
  EXPECT_EQ(answer["ready"], false);
  EXPECT_EQ(answer["routes"][0]["problem"], "no \"db\"\n");
  EXPECT_EQ(answer["routes"][0]["state"], "starting");
}

TEST(Livez, DoesNotLookAtStoresAndBrokers) {
  const Timestamp late{seconds{5'000}};
  EXPECT_EQ(Ask("/livez", {}).status, 200);
  EXPECT_EQ(Ask("/livez", {InState(RelayState::kStarting, "store away")}, "GET", late).status, 200);
  EXPECT_EQ(Ask("/livez", {InState(RelayState::kHolding, "broker away")}, "GET", late).status, 200);
}

TEST(Livez, NoticesAHeartThatStopped) {
  EXPECT_EQ(Ask("/livez", {InState(RelayState::kRunning)}, "GET", Timestamp{seconds{1'030}}).status, 200);
  EXPECT_EQ(Ask("/livez", {InState(RelayState::kRunning)}, "GET", Timestamp{seconds{1'031}}).status, 503);
}

TEST(Probes, KnowTheirPathsAndMethods) {
  EXPECT_EQ(Ask("/", {}).status, 404);
  EXPECT_EQ(Ask("/metrics/x", {}).status, 404);
  EXPECT_EQ(json::parse(Ask("/x", {}).body)["error"]["code"], "not_found");
  EXPECT_EQ(Ask("/livez", {}, "POST").status, 405);
  EXPECT_TRUE(Ask("/livez", {}, "DELETE").allow);
  EXPECT_EQ(Ask("/metrics", {}, "HEAD").status, 200);
  EXPECT_THAT(Ask("/metrics", {}).content_type, HasSubstr("version=0.0.4"));
}

TEST(ListenAddress, IsReadStrictly) {
  EXPECT_EQ(ParseListenAddress("127.0.0.1:9464")->ToString(), "127.0.0.1:9464");
  EXPECT_EQ(ParseListenAddress("localhost:1")->ToString(), "127.0.0.1:1");
  EXPECT_EQ(ParseListenAddress("[::1]:9464")->ToString(), "[::1]:9464");
  EXPECT_EQ(ParseListenAddress(":9464")->ToString(), "0.0.0.0:9464");
  for (const char* text : {"", "9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "::1:9464",
                           "example.org:80", "127.0.0.1:80 "}) {
    const auto address = ParseListenAddress(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code(), "bad_listen_address");
  }
}

/// A plain socket to the server, as a client would have it.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void Send(const std::string& text) const { ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  /// Everything until the server closes.
  std::string ReadAll() const {
    std::string text;
    char block[4096];
    for (ssize_t count = 0; (count = ::recv(socket_, block, sizeof block, 0)) > 0;) {
      text.append(block, static_cast<std::size_t>(count));
    }
    return text;
  }
  std::string Get(const std::string& target, const std::string& method = "GET") const {
    Send(fmt::format("{} {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, target));
    return ReadAll();
  }
  /// The next answer, body included, on a connection that stays open.
  std::string ReadAnswer() const {
    std::string text;
    char c = 0;
    while (!text.ends_with("\r\n\r\n") && ::recv(socket_, &c, 1, 0) == 1) text += c;
    const std::size_t length = text.find("Content-Length: ");
    if (length == std::string::npos) return text;
    for (auto left = std::stoul(text.substr(length + 16)); left > 0 && ::recv(socket_, &c, 1, 0) == 1; --left)
      text += c;
    return text;
  }

 private:
  int socket_;
  bool connected_ = false;
};

class ProbeServerTest : public ::testing::Test {
 protected:
  void Start(ProbeServerOptions options = {}) {
    options.address = {.host = "127.0.0.1", .port = 0};
    options.build = {{"version", "1.2.3"}};
    auto server = ProbeServer::Start(std::move(options), SystemClock::Instance(), [] {
      RouteStats stats = InState(RelayState::kRunning);
      stats.last_beat_at = SystemClock::Instance().Now();
      return std::vector<RouteStats>{stats};
    });
    ASSERT_TRUE(server) << server.error().ToString();
    server_ = *std::move(server);
  }
  std::uint16_t port() const { return server_->address().port; }

  std::unique_ptr<ProbeServer> server_;
};

TEST_F(ProbeServerTest, AnswersOverHttp) {
  Start();
  EXPECT_NE(port(), 0);
  EXPECT_THAT(Client(port()).Get("/livez"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Client(port()).Get("/readyz"), HasSubstr("\"ready\":true"));
  EXPECT_THAT(Client(port()).Get("/metrics"), HasSubstr("sealane_build_info{version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(Client(port()).Get("/nothing"), StartsWith("HTTP/1.1 404 "));
  const std::string refused = Client(port()).Get("/livez", "POST");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(refused, HasSubstr("Allow: GET, HEAD\r\n"));
}

TEST_F(ProbeServerTest, AnswersHeadWithTheHeaderAlone) {
  Start();
  const std::string answer = Client(port()).Get("/livez", "HEAD");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 15\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

TEST_F(ProbeServerTest, KeepsAConnectionForTheNextRequest) {
  Start();
  const Client client(port());
  for (int i = 0; i < 3; ++i) {
    client.Send("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(client.ReadAnswer(), HasSubstr("{\"alive\":true}\n"));
  }
}

TEST_F(ProbeServerTest, RefusesALargeRequestAndLives) {
  Start({.address = {}, .header_max = 1024});
  const Client client(port());
  client.Send("GET /livez HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n");
  const std::string answer = client.ReadAll();
  EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 431 ")) << answer.substr(0, 100);
  EXPECT_THAT(Client(port()).Get("/livez"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(ProbeServerTest, DoesNotReadABody) {
  Start();
  const Client client(port());
  client.Send("GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 413 "));
  const Client chunked(port());
  chunked.Send("GET /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n");
  EXPECT_THAT(chunked.ReadAll(), HasSubstr("Connection: close"));
}

TEST_F(ProbeServerTest, ReadsNothingBehindABodyOfAnUnknownCoding) {
  Start();
  testing::HttpConnection client(port());
  client.Send(
      "GET /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n"
      "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.Read().headers["connection"], "close");
  EXPECT_EQ(client.Read().status, 0);
}

TEST_F(ProbeServerTest, ClosesConnectionsThatSayNothing) {
  Start({.address = {}, .idle_max = std::chrono::milliseconds{50}});
  const Client client(port());
  ASSERT_TRUE(client.connected());
  client.Send("GET /liv");
  EXPECT_EQ(client.ReadAll(), "");
}

TEST_F(ProbeServerTest, HoldsALimitedNumberOfConnections) {
  Start({.address = {}, .connections_max = 4});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Client>(port()));
    clients.back()->Send("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    clients.back()->ReadAnswer();  // it is counted now
  }
  EXPECT_EQ(Client(port()).Get("/livez"), "") << "one too many";
  clients.clear();
  // The server notices a closed connection soon; until then it may refuse.
  std::string answer;
  for (int i = 0; i < 1'000 && answer.empty(); ++i) answer = Client(port()).Get("/livez");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(ProbeServerTest, SurvivesNoise) {
  Start();
  for (const std::string& noise : {std::string("\x16\x03\x01\x02\x00\x01", 6), std::string(3'000, '\0'),
                                   std::string("GET\r\n\r\n"), std::string("\r\n\r\n\r\n")}) {
    const Client client(port());
    client.Send(noise);
  }
  EXPECT_THAT(Client(port()).Get("/livez"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(ProbeServerTest, SaysWhenTheAddressIsTaken) {
  Start();
  const auto second = ProbeServer::Start({.address = {.host = "127.0.0.1", .port = port()}}, SystemClock::Instance(),
                                         [] { return std::vector<RouteStats>(); });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), "address_in_use");
  EXPECT_THAT(second.error().hint(), HasSubstr("--listen"));
}

TEST_F(ProbeServerTest, EndsWithConnectionsOpen) {
  Start();
  const Client client(port());
  client.Send("GET /livez HTTP/1.1\r\n");
  server_.reset();
  EXPECT_EQ(client.ReadAll(), "");
}

TEST(HttpServerTest, AReplyMayComeFromAnyThreadAndWhenNobodyWaitsAnyMore) {
  std::mutex mutex;
  std::vector<HttpServer::Reply> replies;
  const auto kept = [&] {
    const std::lock_guard lock(mutex);
    return replies.size();
  };
  auto server = ValueOrThrow(HttpServer::Start({.address = {.host = "127.0.0.1", .port = 0}},
                                               [&](const HttpRequest&, HttpServer::Reply reply) {
                                                 const std::lock_guard lock(mutex);
                                                 replies.push_back(std::move(reply));
                                               }));
  const int port = server->address().port;
  testing::HttpConnection first(port);
  first.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(testing::Eventually([&] { return kept() == 1; }));
  std::thread([&] { replies[0]({.body = "later"}); }).join();
  EXPECT_EQ(first.Read().body, "later");
  replies[0]({.body = "again"});  // the first counts
  first.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(testing::Eventually([&] { return kept() == 2; }));
  {
    testing::HttpConnection gone(port);
    gone.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    ASSERT_TRUE(testing::Eventually([&] { return kept() == 3; }));
  }
  replies[2]({.body = "to nobody"});
  replies[1]({.body = "second"});
  EXPECT_EQ(first.Read().body, "second");
  first.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(testing::Eventually([&] { return kept() == 4; }));
  server.reset();
  replies[3]({.body = "too late"});
  EXPECT_EQ(first.Read().status, 0);
}

TEST(HttpServerTest, WhatIsNeverRepliedToIsAnsweredByTheServer) {
  auto server = ValueOrThrow(
      HttpServer::Start({.address = {.host = "127.0.0.1", .port = 0}, .reply_max = std::chrono::milliseconds{50}},
                        [](const HttpRequest&, const HttpServer::Reply&) {}));
  testing::HttpConnection client(server->address().port);
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.Read().status, 503);
}

}  // namespace
}  // namespace sealane
