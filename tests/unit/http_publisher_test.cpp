// Protects the HTTP destination: what a request looks like, which answer means what, one key in order and many keys
// in parallel, and that a receiver in trouble costs no message.

#include "http/http_publisher.hpp"

#include <array>
#include <atomic>
#include <map>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <curl/curl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/http_answer.hpp"
#include "http/http_headers.hpp"
#include "support/courier.hpp"
#include "support/http_receiver.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using Answer = HttpReceiver::Answer;
using Request = HttpReceiver::Request;

class HttpPublish : public ::testing::Test {
 protected:
  HttpOptions options() const {
    return {.url = receiver_.url(),
            .timeout = milliseconds{20'000},
            .connections_max = 4,
            .retry_min = milliseconds{5},
            .retry_max = milliseconds{20},
            .misconfigured_retry = milliseconds{10}};
  }
  std::unique_ptr<HttpPublisher> Open(const HttpOptions& options) {
    return ValueOrThrow(OpenHttpPublisher(options, SystemClock::Instance()));
  }
  std::unique_ptr<HttpPublisher> Open() { return Open(options()); }
  /// Collects until the publisher is in this state.
  static void AwaitHealth(Publisher& publisher, Courier& courier, PublisherHealth::State state) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (publisher.health().state != state && std::chrono::steady_clock::now() < deadline) {
      courier.Collect(milliseconds{5});
    }
    EXPECT_EQ(publisher.health().state, state);
  }
  std::vector<std::string> Bodies() const {
    std::vector<std::string> bodies;
    for (const Request& request : receiver_.requests()) bodies.push_back(request.body);
    return bodies;
  }

  HttpReceiver receiver_;
};

/// Answers with these statuses one after the other, then with 200.
HttpReceiver::Handler Answers(std::vector<int> statuses) {
  auto next = std::make_shared<std::atomic<std::size_t>>(0);
  return [statuses = std::move(statuses), next](const Request&) {
    const std::size_t i = (*next)++;
    return Answer{.status = i < statuses.size() ? statuses[i] : 200};
  };
}

TEST_F(HttpPublish, PostsTheValueWithHeadersAndIdempotencyKey) {
  HttpOptions with_extras = options();
  with_extras.headers = {{"X-Tenant", "t1"}, {"Authorization", "Bearer secret"}};
  const auto publisher = Open(with_extras);
  Courier courier(*publisher);
  courier.Send("orders", "Gr\xc3\xbc\xc3\x9f\x65 1", std::string("{\0}", 3),
               {{"ce_id", "17"}, {"ce_subject", "a b%"}, {"content-type", "application/json"}, {"host", "evil"}});
  courier.CollectAll();
  ASSERT_EQ(receiver_.requests().size(), 1U);
  const Request request = receiver_.requests()[0];
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/events");
  EXPECT_EQ(request.body, std::string("{\0}", 3));
  EXPECT_EQ(request.Header("idempotency-key").size(), 36U);
  EXPECT_EQ(request.Header("sealane-topic"), "orders");
  EXPECT_EQ(request.Header("sealane-key"), "Gr%C3%BC%C3%9Fe%201");
  EXPECT_EQ(request.Header("ce-id"), "17");
  EXPECT_EQ(request.Header("ce-subject"), "a%20b%25");
  EXPECT_EQ(request.Header("content-type"), "application/json");
  EXPECT_EQ(request.Header("own-host"), "evil");
  EXPECT_THAT(request.Header("host"), ::testing::StartsWith("127.0.0.1"));
  EXPECT_EQ(request.Header("x-tenant"), "t1");
  EXPECT_EQ(request.Header("authorization"), "Bearer secret");
  EXPECT_EQ(request.Header("expect"), "<none>");
}

TEST_F(HttpPublish, AConfiguredHeaderWinsOverTheEvents) {
  HttpOptions with_key = options();
  with_key.headers = {{"X-Api-Key", "ours"},
                      {"Content-Type", "application/ours"},
                      {"Idempotency-Key", "fixed"},
                      {"own-x-secret", "ours"},
                      {"X-Secret", "ours"}};
  const auto publisher = Open(with_key);
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "x",
               {{"x-api-KEY", "mine"},
                {"X_Api_Key", "mine too"},
                {"content-type", "text/mine"},
                {"x-secret", "mine"},
                {"Transfer_Encoding", "chunked"},
                {"x-other", "mine"}});
  courier.CollectAll();
  const Request request = receiver_.requests().at(0);
  for (const auto& [name, value] : std::map<std::string, std::string>{{"x-api-key", "ours"},
                                                                      {"content-type", "application/ours"},
                                                                      {"x-secret", "ours"},
                                                                      {"own-x-secret", "ours"},
                                                                      {"x-other", "mine"}}) {
    EXPECT_EQ(request.headers.count(name), 1U) << name;
    EXPECT_EQ(request.Header(name), value);
  }
  EXPECT_EQ(request.Header("x_api_key"), "<none>") << "many servers take it for X-Api-Key";
  EXPECT_EQ(request.Header("transfer_encoding"), "<none>");
  EXPECT_EQ(request.Header("own-x-api-key"), "mine, mine too");
  EXPECT_EQ(request.headers.count("idempotency-key"), 1U);
  EXPECT_EQ(request.Header("idempotency-key").size(), 36U) << "the event's id";
}

TEST_F(HttpPublish, AnEventsHeaderDoesNotPassForOneOfOurs) {
  const auto publisher = Open();
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "x",
               {{"tenant-id", "t1"},
                {"content-type", "text/plain"},
                {"Tenant_Id", "forged"},
                {"content_type", "text/forged"},
                {"sealane_TOPIC", "forged"},
                {"Sealane_Key", "forged"},
                {"event_id", "no header of ours here"},
                {"x-note", "a"},
                {"X_Note", "b"}});
  courier.CollectAll();
  const Request request = receiver_.requests().at(0);
  for (const auto& [name, value] : std::map<std::string, std::string>{{"tenant-id", "t1"},
                                                                      {"content-type", "text/plain"},
                                                                      {"sealane-topic", "orders"},
                                                                      {"sealane-key", "o-1"},
                                                                      {"own-tenant_id", "forged"},
                                                                      {"own-content_type", "text/forged"},
                                                                      {"own-sealane_topic", "forged"},
                                                                      {"own-sealane_key", "forged"},
                                                                      {"event_id", "no header of ours here"},
                                                                      {"x-note", "a, b"}}) {
    EXPECT_EQ(request.headers.count(name), 1U) << name;
    EXPECT_EQ(request.Header(name), value) << name;
  }
  for (const char* name : {"tenant_id", "content_type", "sealane_topic", "sealane_key", "x_note"}) {
    EXPECT_EQ(request.Header(name), "<none>") << name << ": many servers take it for the one with hyphens";
  }
}

TEST_F(HttpPublish, SendsBasicCredentials) {
  HttpOptions with_login = options();
  with_login.url.insert(std::string("http://").size(), "shop:pa%3Ass@");
  const auto publisher = Open(with_login);
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "x");
  courier.CollectAll();
  EXPECT_EQ(receiver_.requests()[0].Header("authorization"), "Basic c2hvcDpwYTpzcw==");
}

TEST_F(HttpPublish, SendsKeysInParallelAndOneKeyInOrder) {
  std::counting_semaphore<100> go(0);
  receiver_.SetHandler([&](const Request&) {
    go.acquire();
    return Answer{};
  });
  const auto publisher = Open();
  Courier courier(*publisher);
  for (int i = 0; i < 3; ++i) {
    for (const auto* key : {"a", "b", "c"}) courier.Send("orders", key, fmt::format("{}{}", key, i));
  }
  courier.Collect(milliseconds{50});
  receiver_.AwaitRequests(3);
  EXPECT_THAT(Bodies(), ::testing::UnorderedElementsAre("a0", "b0", "c0")) << "the first of each key, no second";
  go.release(9);
  courier.CollectAll();
  EXPECT_EQ(receiver_.busiest(), 3U);
  std::map<char, std::vector<std::string>> by_key;
  for (const std::string& body : Bodies()) by_key[body[0]].push_back(body);
  EXPECT_THAT(by_key['a'], ElementsAre("a0", "a1", "a2"));
  EXPECT_THAT(by_key['b'], ElementsAre("b0", "b1", "b2"));
  EXPECT_THAT(by_key['c'], ElementsAre("c0", "c1", "c2"));
}

TEST_F(HttpPublish, NeverHasMoreRequestsUnderWayThanAllowed) {
  receiver_.SetHandler([&](const Request&) {
    std::this_thread::yield();
    return Answer{};
  });
  const auto publisher = Open();
  Courier courier(*publisher);
  for (int i = 0; i < 200; ++i) courier.Send("orders", std::to_string(i), "x");
  courier.CollectAll();
  EXPECT_LE(receiver_.busiest(), 4U);
  EXPECT_EQ(receiver_.requests().size(), 200U);
}

TEST_F(HttpPublish, WaitsForAReceiverInTrouble) {
  receiver_.SetHandler(Answers({503, 429, 502, 408}));
  const auto publisher = Open();
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "first");
  courier.Send("orders", "o-1", "second");
  courier.CollectAll();
  for (const Delivery& delivery : courier.deliveries()) EXPECT_EQ(delivery.status, DeliveryStatus::kPersisted);
  EXPECT_THAT(Bodies(), ElementsAre("first", "first", "first", "first", "first", "second"));
  EXPECT_EQ(publisher->health().state, PublisherHealth::State::kReady);
  EXPECT_EQ(publisher->resent_count(), 2U) << "after the 502 it may have been taken; before, it said that it was not";
}

TEST_F(HttpPublish, OneKeyInTroubleDoesNotStopTheOthers) {
  receiver_.SetHandler([](const Request& request) { return Answer{.status = request.body == "bad" ? 502 : 200}; });
  HttpOptions one_by_one = options();
  one_by_one.connections_max = 1;
  const auto publisher = Open(one_by_one);
  Courier courier(*publisher);
  courier.Send("orders", "bad", "bad");
  for (int i = 0; i < 20; ++i) courier.Send("orders", fmt::format("good-{}", i % 10), "good");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (courier.deliveries().size() < 20 && std::chrono::steady_clock::now() < deadline) {
    courier.Collect(milliseconds{5});
  }
  EXPECT_EQ(courier.deliveries().size(), 20U);
  for (const Delivery& delivery : courier.deliveries()) EXPECT_EQ(delivery.status, DeliveryStatus::kPersisted);
  publisher->Abandon();
  courier.CollectAll();
  EXPECT_EQ(courier.DeliveryOf(1).status, DeliveryStatus::kPossiblyPersisted);
}

// By the Idempotency-Key draft 409 says that the first request with this key is still being worked on.
TEST_F(HttpPublish, AConflictIsNotAnAcknowledgement) {
  receiver_.SetHandler(Answers({409}));
  const auto publisher = Open();
  Courier courier(*publisher);
  const auto early = courier.Send("orders", "o-1", "first");
  const auto behind = courier.Send("orders", "o-1", "second");
  courier.CollectAll();
  EXPECT_EQ(courier.DeliveryOf(early).status, DeliveryStatus::kNotPersisted);
  EXPECT_EQ(courier.DeliveryOf(early).failure, FailureClass::kRetry);
  EXPECT_EQ(courier.DeliveryOf(early).code, "http_409");
  EXPECT_EQ(courier.DeliveryOf(behind).code, "held_back");
  const auto again = courier.Send("orders", "o-1", "first");
  courier.CollectAll();
  EXPECT_EQ(courier.DeliveryOf(again).status, DeliveryStatus::kPersisted);
}

TEST_F(HttpPublish, RetryAfterIsRespected) {
  receiver_.SetHandler([](const Request&) { return Answer{.status = 503, .headers = {{"Retry-After", "3600"}}}; });
  const auto publisher = Open();
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "x");
  AwaitHealth(*publisher, courier, PublisherHealth::State::kUnreachable);
  EXPECT_EQ(publisher->health().problem->code(), "http_503");
  courier.Collect(milliseconds{100});  // five times the longest pause of its own
  EXPECT_EQ(receiver_.requests().size(), 1U);
}

TEST_F(HttpPublish, GoesOnWhenTheReceiverComesBack) {
  const auto publisher = Open();
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "before");
  courier.CollectAll();
  receiver_.Stop();
  for (int i = 0; i < 20; ++i) courier.Send("orders", std::to_string(i), "during");
  AwaitHealth(*publisher, courier, PublisherHealth::State::kUnreachable);
  EXPECT_EQ(publisher->health().problem->code(), "receiver_unreachable");
  EXPECT_EQ(courier.deliveries().size(), 1U);
  receiver_.Start();
  courier.CollectAll();
  EXPECT_EQ(publisher->health().state, PublisherHealth::State::kReady);
}

TEST_F(HttpPublish, SendsAgainWithTheSameKeyWhenTheAnswerIsLost) {
  std::atomic<int> calls{0};
  receiver_.SetHandler([&](const Request&) { return Answer{.hang_up = calls++ == 0}; });
  const auto publisher = Open();
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "x");
  courier.CollectAll();
  ASSERT_EQ(receiver_.requests().size(), 2U);
  EXPECT_EQ(receiver_.requests()[0].Header("idempotency-key"), receiver_.requests()[1].Header("idempotency-key"));
  EXPECT_EQ(publisher->resent_count(), 1U);
}

TEST_F(HttpPublish, SendsAgainWhenTheAnswerTakesTooLong) {
  std::binary_semaphore late(0);
  std::atomic<int> calls{0};
  receiver_.SetHandler([&](const Request&) {
    if (calls++ == 0) late.acquire();
    return Answer{};
  });
  HttpOptions hasty = options();
  hasty.timeout = milliseconds{1'000};
  const auto publisher = Open(hasty);
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "x");
  courier.CollectAll();
  late.release();
  receiver_.Stop();  // its handler uses what ends with this function
  EXPECT_EQ(courier.DeliveryOf(1).status, DeliveryStatus::kPersisted);
  EXPECT_GE(publisher->resent_count(), 1U);
}

TEST_F(HttpPublish, AWrongPasswordLosesNothing) {
  std::atomic<bool> permitted{false};
  receiver_.SetHandler([&](const Request&) { return Answer{.status = permitted ? 200 : 401}; });
  const auto publisher = Open();
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "x");
  AwaitHealth(*publisher, courier, PublisherHealth::State::kMisconfigured);
  EXPECT_EQ(publisher->health().problem->code(), "http_401");
  EXPECT_FALSE(publisher->health().problem->hint().empty());
  EXPECT_TRUE(courier.deliveries().empty());
  permitted = true;
  courier.CollectAll();
  EXPECT_EQ(courier.DeliveryOf(1).status, DeliveryStatus::kPersisted);
  EXPECT_EQ(publisher->health().state, PublisherHealth::State::kReady);
}

TEST_F(HttpPublish, FollowsNoRedirect) {
  receiver_.SetHandler([&](const Request&) {
    return Answer{.status = 307, .headers = {{"Location", receiver_.url("/elsewhere")}}};
  });
  const auto publisher = Open();
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "x");
  AwaitHealth(*publisher, courier, PublisherHealth::State::kMisconfigured);
  for (const Request& request : receiver_.requests()) EXPECT_EQ(request.target, "/events");
}

TEST_F(HttpPublish, AFailedMessageHoldsBackItsKeyOnly) {
  receiver_.SetHandler([](const Request& request) { return Answer{.status = request.body == "bad" ? 422 : 200}; });
  const auto publisher = Open();
  Courier courier(*publisher);
  const auto bad = courier.Send("orders", "o-1", "bad");
  const auto behind = courier.Send("orders", "o-1", "behind");
  const auto beside = courier.Send("orders", "o-2", "beside");
  courier.CollectAll();
  EXPECT_EQ(courier.DeliveryOf(bad).status, DeliveryStatus::kNotPersisted);
  EXPECT_EQ(courier.DeliveryOf(bad).failure, FailureClass::kRejected);
  EXPECT_EQ(courier.DeliveryOf(bad).code, "http_422");
  EXPECT_EQ(courier.DeliveryOf(behind).code, "held_back");
  EXPECT_EQ(courier.DeliveryOf(behind).failure, FailureClass::kOutage);
  EXPECT_EQ(courier.DeliveryOf(beside).status, DeliveryStatus::kPersisted);
  const auto again = courier.Send("orders", "o-1", "behind");
  courier.CollectAll();
  EXPECT_EQ(courier.DeliveryOf(again).status, DeliveryStatus::kPersisted);
}

TEST_F(HttpPublish, AbandonTellsWhatMayHaveArrived) {
  std::binary_semaphore late(0);
  receiver_.SetHandler([&](const Request&) {
    late.acquire();
    return Answer{};
  });
  const auto publisher = Open();
  Courier courier(*publisher);
  const auto under_way = courier.Send("orders", "o-1", "first");
  const auto waiting = courier.Send("orders", "o-1", "second");
  while (receiver_.requests().empty()) courier.Collect(milliseconds{5});
  publisher->Abandon();
  courier.CollectAll();
  late.release();
  receiver_.Stop();  // its handler uses what ends with this function
  EXPECT_EQ(courier.DeliveryOf(under_way).status, DeliveryStatus::kPossiblyPersisted);
  EXPECT_EQ(courier.DeliveryOf(waiting).status, DeliveryStatus::kNotPersisted);
  EXPECT_EQ(courier.DeliveryOf(waiting).code, "abandoned");
}

TEST(HttpAnswer, MeansWhatTheTableSays) {
  using Kind = http::AnswerVerdict::Kind;
  struct Row {
    long status;
    Kind kind;
    std::optional<ErrorKind> problem;
    std::optional<FailureClass> failure;
  };
  const std::array rows = {
      Row{200, Kind::kPersisted, {}, {}},
      Row{202, Kind::kPersisted, {}, {}},
      Row{204, Kind::kPersisted, {}, {}},
      Row{301, Kind::kTryAgain, ErrorKind::kMisconfigured, {}},
      Row{401, Kind::kTryAgain, ErrorKind::kMisconfigured, {}},
      Row{403, Kind::kTryAgain, ErrorKind::kMisconfigured, {}},
      Row{404, Kind::kTryAgain, ErrorKind::kMisconfigured, {}},
      Row{405, Kind::kTryAgain, ErrorKind::kMisconfigured, {}},
      Row{407, Kind::kTryAgain, ErrorKind::kMisconfigured, {}},
      Row{410, Kind::kTryAgain, ErrorKind::kMisconfigured, {}},
      Row{408, Kind::kTryAgain, ErrorKind::kUnavailable, {}},
      Row{425, Kind::kTryAgain, ErrorKind::kUnavailable, {}},
      Row{429, Kind::kTryAgain, ErrorKind::kUnavailable, {}},
      Row{502, Kind::kTryAgain, ErrorKind::kUnavailable, {}},
      Row{503, Kind::kTryAgain, ErrorKind::kUnavailable, {}},
      Row{504, Kind::kTryAgain, ErrorKind::kUnavailable, {}},
      Row{400, Kind::kFailed, {}, FailureClass::kRejected},
      Row{413, Kind::kFailed, {}, FailureClass::kRejected},
      Row{415, Kind::kFailed, {}, FailureClass::kRejected},
      Row{422, Kind::kFailed, {}, FailureClass::kRejected},
      Row{409, Kind::kFailed, {}, FailureClass::kRetry},
      Row{423, Kind::kFailed, {}, FailureClass::kRetry},
      Row{500, Kind::kFailed, {}, FailureClass::kRetry},
      Row{501, Kind::kFailed, {}, FailureClass::kRetry},
  };
  for (const Row& row : rows) {
    const auto verdict = http::JudgeAnswer({.status = row.status});
    EXPECT_EQ(verdict.kind, row.kind) << row.status;
    if (row.problem) {
      EXPECT_EQ(verdict.problem->kind(), *row.problem) << row.status;
    }
    if (row.failure) {
      EXPECT_EQ(verdict.failure, *row.failure) << row.status;
    }
    if (row.kind != Kind::kPersisted) {
      EXPECT_EQ(verdict.problem->code(), fmt::format("http_{}", row.status));
    }
    // A proxy that lost the receiver's answer does not know what became of the request.
    EXPECT_EQ(verdict.unknown, row.status == 502 || row.status == 504) << row.status;
  }
}

TEST(HttpAnswer, TellsAnOutageFromACertificateAndSentFromUnsent) {
  const auto refused = http::JudgeAnswer({.transport = CURLE_COULDNT_CONNECT});
  EXPECT_EQ(refused.problem->kind(), ErrorKind::kUnavailable);
  EXPECT_FALSE(refused.unknown);
  EXPECT_TRUE(http::JudgeAnswer({.transport = CURLE_OPERATION_TIMEDOUT, .request_sent = true}).unknown);
  const auto untrusted = http::JudgeAnswer({.transport = CURLE_PEER_FAILED_VERIFICATION});
  EXPECT_EQ(untrusted.problem->kind(), ErrorKind::kMisconfigured);
  EXPECT_EQ(untrusted.problem->code(), "receiver_not_trusted");
}

TEST(HttpHeaders, CannotBeBrokenOutOf) {
  const std::vector<HeaderView> hostile = {
      {"x\r\nHost: evil", "1"},  {"note", "a\r\nHost: evil"}, {"ce_a b", "\"\n"}, {"empty", ""},
      {"Authorization", "mine"}, {"spaced", " x "},           {"", "nameless"},   {"plain", "50% off, \"now\""}};
  const HeldMessage message(
      OutgoingMessage{.token = 1, .event_id = {}, .topic = "a\nb", .key = "k\r\nk", .value = "", .headers = hostile});
  const auto lines = http::HeaderLines(message, {.url = "http://x"});
  EXPECT_THAT(lines,
              ::testing::IsSupersetOf({"Sealane-Topic: a%0Ab", "Sealane-Key: k%0D%0Ak", "x%0D%0AHost%3A%20evil: 1",
                                       "note: a%0D%0AHost:%20evil", "ce-a%20b: %22%0A", "empty;",
                                       "own-Authorization: mine", "spaced: %20x%20", "own-: nameless",
                                       "plain: 50% off, \"now\"", "Content-Type: application/octet-stream"}));
  for (const std::string& line : lines) EXPECT_EQ(line.find_first_of("\r\n"), std::string::npos) << line;
}

TEST(HttpOptions, AreCheckedWithoutShowingSecrets) {
  const auto error_of = [](const HttpOptions& options) {
    const auto opened = OpenHttpPublisher(options, SystemClock::Instance());
    EXPECT_FALSE(opened);
    EXPECT_EQ(opened.error().kind(), ErrorKind::kMisconfigured);
    return opened ? std::string() : opened.error().ToString();
  };
  EXPECT_EQ(error_of({.url = "ftp://user:hunter2@x/"}).find("hunter2"), std::string::npos);
  EXPECT_NE(error_of({.url = "ftp://user:hunter2@x/"}), "");
  EXPECT_NE(error_of({.url = "http://x", .connections_max = 0}), "");
  const std::string broken_header = error_of({.url = "http://x", .headers = {{"Authorization", "hunter2\n"}}});
  EXPECT_NE(broken_header, "");
  EXPECT_EQ(broken_header.find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace sealane
