// Protects tasks over HTTP: what a request looks like, that no task can change where it goes or whose key it carries,
// and that every way a request can end has the verdict that neither loses a task nor sends it twice needlessly.

#include <fstream>
#include <future>
#include <latch>
#include <semaphore>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/http_headers.hpp"
#include "http/task_executor.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/http_receiver.hpp"
#include "support/sample_events.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Answer = HttpReceiver::Answer;
using Request = HttpReceiver::Request;

ClaimedTask Charge(const std::string& key = "order-1") {
  ClaimedTask claimed;
  claimed.id = FreshId();
  claimed.task = {.target = "billing", .operation = "/charges", .idempotency_key = key, .request = "{\"cents\":5}"};
  claimed.attempt = 1;
  claimed.tries = 1;
  return claimed;
}

/// A port of the loopback interface that nobody listens on.
int UnusedPort() {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  socklen_t size = sizeof address;
  EXPECT_EQ(::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(probe);
  return ntohs(address.sin_port);
}

class HttpTask : public ::testing::Test {
 protected:
  HttpTaskOptions options() const { return {.caller = {.url = receiver_.url("/api/"), .timeout = seconds{20}}}; }
  AttemptReport Attempt(const HttpTaskOptions& options, const ClaimedTask& task = Charge()) const {
    return ValueOrThrow(OpenHttpTaskExecutor(options))->Execute(task, {});
  }
  AttemptReport Attempt(const ClaimedTask& task = Charge()) const { return Attempt(options(), task); }
  AttemptReport AttemptAnswered(const Answer& answer) {
    receiver_.SetHandler([answer](const Request&) { return answer; });
    return Attempt();
  }

  HttpReceiver receiver_;
};

TEST_F(HttpTask, PostsTheRequestBelowTheTargetsUrl) {
  ClaimedTask task = Charge();
  task.attempt = 3;
  task.task.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  task.task.operation = "/charges?mode=fast";
  task.task.request = std::string("{\0}", 3);
  task.task.headers = {{"X-Shop", "eu"}};
  HttpTaskOptions with_token = options();
  with_token.headers = {{"Authorization", "Bearer secret"}};
  const AttemptReport report = Attempt(with_token, task);
  EXPECT_EQ(report.verdict, AttemptVerdict::kSucceeded);
  EXPECT_EQ(report.status, 200);
  EXPECT_EQ(report.response, "ok");
  EXPECT_FALSE(report.response_cut);
  EXPECT_GT(report.took.count(), 0);
  ASSERT_EQ(receiver_.requests().size(), 1U);
  const Request request = receiver_.requests()[0];
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/api/charges?mode=fast");
  EXPECT_EQ(request.body, std::string("{\0}", 3));
  EXPECT_EQ(request.Header("content-type"), "application/json");
  EXPECT_EQ(request.Header("idempotency-key"), "order-1");
  EXPECT_EQ(request.Header("x-sealane-task-id"), task.id.ToString());
  EXPECT_EQ(request.Header("x-sealane-attempt"), "3");
  EXPECT_EQ(request.Header("traceparent"), task.task.traceparent);
  EXPECT_EQ(request.Header("x-shop"), "eu");
  EXPECT_EQ(request.Header("authorization"), "Bearer secret");
  EXPECT_EQ(request.Header("expect"), "<none>");
}

TEST_F(HttpTask, SendsWithTheConfiguredMethod) {
  for (const std::string method : {"POST", "PUT", "PATCH", "DELETE"}) {
    HttpTaskOptions with_method = options();
    with_method.method = method;
    EXPECT_EQ(Attempt(with_method).verdict, AttemptVerdict::kSucceeded);
    EXPECT_EQ(receiver_.requests().back().method, method);
    EXPECT_EQ(receiver_.requests().back().body, "{\"cents\":5}");
  }
  HttpTaskOptions with_get = options();
  with_get.method = "GET";
  EXPECT_EQ(OpenHttpTaskExecutor(with_get).error().code(), "invalid_http_options");
}

TEST_F(HttpTask, RefusesOperationsThatAreNoPathBelowTheTarget) {
  for (const std::string operation :
       {"", "charges", "https://evil.example/", "@evil.example/", "/../admin", "/a/..", "/a/%2e%2E/b", "/.%2e/b",
        "/./a", "/a b", "/a\r\nX-Evil: 1", "/a\x01", "/a#b", "/a\\..\\b", "/\xc3\xbc"}) {
    ClaimedTask task = Charge();
    task.task.operation = operation;
    const AttemptReport report = Attempt(task);
    EXPECT_EQ(report.verdict, AttemptVerdict::kRefused) << operation;
    EXPECT_EQ(report.code, "invalid_operation") << operation;
  }
  EXPECT_TRUE(receiver_.requests().empty());
}

TEST_F(HttpTask, KeepsDotsThatDoNotClimb) {
  ClaimedTask task = Charge();
  task.task.operation = "/a..b/...?up=../..";
  EXPECT_EQ(Attempt(task).verdict, AttemptVerdict::kSucceeded);
  EXPECT_EQ(receiver_.requests()[0].target, "/api/a..b/...?up=../..");
}

TEST_F(HttpTask, LetsNoTaskReplaceTheKeyTheLoginOrTheFraming) {
  ClaimedTask task = Charge();
  task.task.headers = {{"idempotency-key", "mine"}, {"Authorization", "Bearer mine"}, {"HOST", "evil.example"},
                       {"Content-Length", "1"},     {"Content-Type", "text/evil"},    {"x-sealane-attempt", "9"},
                       {"X-Api-Key", "mine"},       {"Transfer-Encoding", "chunked"}};
  HttpTaskOptions with_token = options();
  with_token.headers = {{"Authorization", "Bearer secret"}, {"x-api-key", "ours"}, {"Idempotency-Key", "fixed"}};
  EXPECT_EQ(Attempt(with_token, task).verdict, AttemptVerdict::kSucceeded);
  const Request request = receiver_.requests().at(0);
  for (const auto& [name, value] : std::map<std::string, std::string>{{"idempotency-key", "order-1"},
                                                                      {"authorization", "Bearer secret"},
                                                                      {"content-type", "application/json"},
                                                                      {"x-sealane-attempt", "1"},
                                                                      {"x-api-key", "ours"}}) {
    EXPECT_EQ(request.headers.count(name), 1U) << name;
    EXPECT_EQ(request.Header(name), value);
  }
  EXPECT_THAT(request.Header("host"), StartsWith("127.0.0.1"));
  EXPECT_EQ(request.Header("transfer-encoding"), "<none>");
  EXPECT_EQ(request.Header("own-authorization"), "Bearer mine");
  EXPECT_EQ(request.body, "{\"cents\":5}");
}

TEST_F(HttpTask, AConfiguredHeaderWinsOverTheTasks) {
  ClaimedTask task = Charge();
  task.task.headers = {
      {"x-api-KEY", "mine"}, {"X_Api_Key", "mine"}, {"Transfer_Encoding", "chunked"}, {"X-Secret", "mine"}};
  HttpTaskOptions configured = options();
  configured.headers = {
      {"X-Api-Key", "ours"}, {"content-type", "application/ours"}, {"x-secret", "ours"}, {"Own-X-Secret", "ours"}};
  EXPECT_EQ(Attempt(configured, task).verdict, AttemptVerdict::kSucceeded);
  const Request request = receiver_.requests().at(0);
  for (const auto& [name, value] : std::map<std::string, std::string>{{"x-api-key", "ours"},
                                                                      {"content-type", "application/ours"},
                                                                      {"x-secret", "ours"},
                                                                      {"own-x-secret", "ours"}}) {
    EXPECT_EQ(request.headers.count(name), 1U) << name;
    EXPECT_EQ(request.Header(name), value);
  }
  EXPECT_EQ(request.Header("x_api_key"), "<none>") << "many servers take it for X-Api-Key";
  EXPECT_EQ(request.Header("transfer_encoding"), "<none>");
}

TEST_F(HttpTask, AConfiguredHeaderWinsOverThoseOfAForwardedEvent) {
  ClaimedTask task = Charge();
  const WireMessage message{.key = "o-1",
                            .value = "{}",
                            .headers = {{"ce_id", "17"}, {"x-api-key", "mine"}, {"X_API_KEY", "mine"}, {"x", "1"}}};
  task.task.headers = http::TaskHeadersOf(message, "orders");
  HttpTaskOptions configured = options();
  configured.headers = {{"X-Api-Key", "ours"}, {"Sealane-Key", "ours"}};
  EXPECT_EQ(Attempt(configured, task).verdict, AttemptVerdict::kSucceeded);
  const Request request = receiver_.requests().at(0);
  for (const char* const name : {"x-api-key", "sealane-key"}) {
    EXPECT_EQ(request.headers.count(name), 1U) << name;
    EXPECT_EQ(request.Header(name), "ours") << name;
  }
  EXPECT_EQ(request.Header("x_api_key"), "<none>");
  EXPECT_EQ(request.Header("ce-id"), "17");
  EXPECT_EQ(request.Header("x"), "1");
}

TEST_F(HttpTask, LetsNoValueEndItsHeaderLine) {
  ClaimedTask task = Charge("k\r\nX-Evil: 1");
  task.task.headers = {{"X-A\r\nX-Evil", "1"}, {"X-B", "1\r\nX-Evil: 2"}};
  task.task.content_type = "text/plain\r\nX-Evil: 3";
  task.task.traceparent = "00\nX-Evil: 4";
  EXPECT_EQ(Attempt(task).verdict, AttemptVerdict::kSucceeded);
  const Request request = receiver_.requests().at(0);
  EXPECT_EQ(request.Header("x-evil"), "<none>");
  EXPECT_EQ(request.Header("idempotency-key"), "k%0D%0AX-Evil:%201");
}

TEST_F(HttpTask, KeepsDifferentKeysDifferent) {
  for (const std::string key : {"a\n", "a%0A", "a b", "\xc3\xbc", "%C3%BC"}) Attempt(Charge(key));
  std::set<std::string> seen;
  for (const Request& request : receiver_.requests()) seen.insert(request.Header("idempotency-key"));
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_TRUE(seen.contains("a b"));
}

TEST_F(HttpTask, JudgesByStatus) {
  struct Row {
    int status;
    AttemptVerdict verdict;
    std::string code;
  };
  using enum AttemptVerdict;
  const std::vector<Row> rows = {
      {200, kSucceeded, ""},           {201, kSucceeded, ""},         {204, kSucceeded, ""},
      {202, kSucceeded, ""},           {301, kRefused, "redirected"}, {302, kRefused, "redirected"},
      {308, kRefused, "redirected"},   {400, kRefused, "http_400"},   {401, kRetry, "not_authorised"},
      {403, kRetry, "not_authorised"}, {404, kRefused, "http_404"},   {405, kRefused, "http_405"},
      {408, kUnknown, "http_408"},     {409, kRefused, "http_409"},   {410, kRefused, "http_410"},
      {422, kRefused, "http_422"},     {425, kRetry, "http_425"},     {429, kRetry, "http_429"},
      {500, kUnknown, "http_500"},     {502, kUnknown, "http_502"},   {503, kRetry, "http_503"},
      {504, kUnknown, "http_504"},     {507, kUnknown, "http_507"},
  };
  for (const Row& row : rows) {
    const std::string body = row.status == 204 ? "" : "ok";
    const AttemptReport report =
        AttemptAnswered({.status = row.status, .headers = {{"Location", "http://127.0.0.1:1/"}}, .body = body});
    EXPECT_EQ(report.verdict, row.verdict) << row.status;
    EXPECT_EQ(report.code, row.code) << row.status;
    EXPECT_EQ(report.status, row.status);
    EXPECT_EQ(report.response, body) << row.status;
  }
  EXPECT_EQ(receiver_.requests().size(), rows.size()) << "no redirect is followed";
}

TEST_F(HttpTask, TakesAConflictAsTheTargetSays) {
  receiver_.SetHandler([](const Request&) { return Answer{.status = 409}; });
  HttpTaskOptions told = options();
  told.conflict = *ParseConflictMeaning("retry");
  EXPECT_EQ(Attempt(told).verdict, AttemptVerdict::kRetry);
  told.conflict = *ParseConflictMeaning("success");
  EXPECT_EQ(Attempt(told).verdict, AttemptVerdict::kSucceeded);
  EXPECT_EQ(Attempt(told).status, 409);
}

TEST_F(HttpTask, WaitsAsLongAsItIsAskedButNotForEver) {
  const auto wait = [&](const std::string& text) {
    return AttemptAnswered({.status = 503, .headers = {{"Retry-After", text}}}).retry_after;
  };
  EXPECT_EQ(wait("7"), milliseconds{7'000});
  EXPECT_EQ(wait("9999999"), milliseconds{3'600'000});
  EXPECT_EQ(wait("soon"), std::nullopt);
  EXPECT_EQ(wait("Wed, 01 Jan 2020 00:00:00 GMT"), std::nullopt);
  const auto date = wait("Fri, 01 Jan 2100 00:00:00 GMT");
  EXPECT_EQ(date, milliseconds{3'600'000});
  EXPECT_EQ(AttemptAnswered({.status = 429}).retry_after, std::nullopt);
}

TEST_F(HttpTask, KnowsThatNothingHappenedWhenNobodyListens) {
  HttpTaskOptions nowhere = options();
  nowhere.caller.url = fmt::format("http://user:geheim@127.0.0.1:{}", UnusedPort());
  const AttemptReport report = Attempt(nowhere);
  EXPECT_EQ(report.verdict, AttemptVerdict::kRetry);
  EXPECT_EQ(report.code, "receiver_unreachable");
  EXPECT_EQ(report.status, std::nullopt);
  EXPECT_THAT(report.message, Not(HasSubstr("geheim")));
  nowhere.caller.url = "http://no-such-host.invalid";
  EXPECT_EQ(Attempt(nowhere).verdict, AttemptVerdict::kRetry);
  EXPECT_EQ(Attempt(nowhere).code, "receiver_not_found");
}

TEST_F(HttpTask, DoesNotKnowWhetherItHappenedWhenTheAnswerIsLate) {
  // The receiver lives longer than this test, and so may its handler.
  const auto go = std::make_shared<std::latch>(1);
  receiver_.SetHandler([go](const Request&) {
    go->wait();
    return Answer{};
  });
  HttpTaskOptions hasty = options();
  hasty.caller.timeout = milliseconds{2'000};
  const AttemptReport report = Attempt(hasty);
  receiver_.AwaitRequests(1);
  go->count_down();
  EXPECT_EQ(report.verdict, AttemptVerdict::kUnknown);
  EXPECT_EQ(report.code, "answer_missing");
  EXPECT_EQ(receiver_.requests().size(), 1U);
}

TEST_F(HttpTask, DoesNotKnowWhetherItHappenedWhenTheConnectionIsLost) {
  const AttemptReport report = AttemptAnswered({.hang_up = true});
  EXPECT_EQ(report.verdict, AttemptVerdict::kUnknown);
  EXPECT_EQ(report.code, "answer_missing");
}

TEST_F(HttpTask, TakesHalfAnAnswerAsNone) {
  receiver_.SetHandler(
      [](const Request&) { return Answer{.raw = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly a part"}; });
  HttpTaskOptions hasty = options();
  hasty.caller.timeout = milliseconds{300};
  const AttemptReport report = Attempt(hasty);
  EXPECT_EQ(report.verdict, AttemptVerdict::kUnknown);
  EXPECT_EQ(report.code, "answer_missing");
}

TEST_F(HttpTask, TakesWhatIsNoHttpAsNoAnswer) {
  const AttemptReport report = AttemptAnswered({.raw = "220 mail.example ESMTP\r\n"});
  EXPECT_EQ(report.verdict, AttemptVerdict::kUnknown);
  EXPECT_EQ(report.code, "answer_missing");
}

TEST_F(HttpTask, CutsALongResponseAndIsDone) {
  HttpTaskOptions small = options();
  small.caller.response_max = 1'000;
  receiver_.SetHandler([](const Request&) { return Answer{.body = std::string(5'000'000, 'x')}; });
  const AttemptReport report = Attempt(small);
  EXPECT_EQ(report.verdict, AttemptVerdict::kSucceeded);
  EXPECT_EQ(report.response, std::string(1'000, 'x'));
  EXPECT_TRUE(report.response_cut);
  // One that never ends is not waited for.
  receiver_.SetHandler([](const Request&) {
    return Answer{.raw = "HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + std::string(2'000, 'y')};
  });
  const AttemptReport endless = Attempt(small);
  EXPECT_EQ(endless.verdict, AttemptVerdict::kSucceeded);
  EXPECT_TRUE(endless.response_cut);
  receiver_.SetHandler([](const Request&) { return Answer{.body = std::string(1'000, 'z')}; });
  EXPECT_FALSE(Attempt(small).response_cut);
}

TEST_F(HttpTask, StoresOnlyPrintableMediaTypes) {
  const AttemptReport report =
      AttemptAnswered({.headers = {{"Content-Type", "text/plain; x=\xff\xfe\x1b" + std::string(1'000, 'a')}}});
  EXPECT_THAT(report.response_type, StartsWith("text/plain; x=aaa"));
  EXPECT_LE(report.response_type.size(), 255U);
}

TEST_F(HttpTask, SendsNothingTwiceUnseenWhereConnectionsAreNotReused) {
  // libcurl repeats a request by itself when a connection that it used before turns out to be dead.
  receiver_.SetHandler(
      [n = std::make_shared<std::atomic<int>>(0)](const Request&) { return Answer{.hang_up = (*n)++ > 0}; });
  HttpTaskOptions careful = options();
  careful.caller.reuse_connections = false;
  const auto executor = ValueOrThrow(OpenHttpTaskExecutor(careful));
  EXPECT_EQ(executor->Execute(Charge("1"), {}).verdict, AttemptVerdict::kSucceeded);
  EXPECT_EQ(executor->Execute(Charge("2"), {}).verdict, AttemptVerdict::kUnknown);
  EXPECT_EQ(receiver_.requests().size(), 2U);
}

TEST_F(HttpTask, RunsAttemptsSideBySide) {
  std::latch all(4);
  receiver_.SetHandler([&](const Request&) {
    all.arrive_and_wait();
    return Answer{};
  });
  const auto executor = ValueOrThrow(OpenHttpTaskExecutor(options()));
  std::vector<std::future<AttemptReport>> attempts;
  for (int i = 0; i < 4; ++i) {
    attempts.push_back(
        std::async(std::launch::async, [&, i] { return executor->Execute(Charge(fmt::format("{}", i)), {}); }));
  }
  for (auto& attempt : attempts) EXPECT_EQ(attempt.get().verdict, AttemptVerdict::kSucceeded);
  EXPECT_EQ(receiver_.busiest(), 4U);
}

TEST_F(HttpTask, SendsNothingAfterAStop) {
  std::stop_source stop;
  stop.request_stop();
  const AttemptReport report = ValueOrThrow(OpenHttpTaskExecutor(options()))->Execute(Charge(), stop.get_token());
  EXPECT_EQ(report.verdict, AttemptVerdict::kRetry);
  EXPECT_EQ(report.code, "stopped");
  EXPECT_TRUE(receiver_.requests().empty());
}

TEST_F(HttpTask, RefusesOptionsThatCannotWork) {
  const auto code = [&](const auto& change) {
    HttpTaskOptions wrong = options();
    change(wrong);
    const auto opened = OpenHttpTaskExecutor(wrong);
    return opened ? std::string("none") : opened.error().field();
  };
  EXPECT_EQ(code([](HttpTaskOptions& o) { o.caller.url = "ftp://user:geheim@host"; }), "url");
  EXPECT_EQ(code([](HttpTaskOptions& o) { o.caller.url += "?a=b"; }), "url");
  EXPECT_EQ(code([](HttpTaskOptions& o) { o.caller.timeout = milliseconds{0}; }), "timeout");
  EXPECT_EQ(code([](HttpTaskOptions& o) { o.headers = {{"X", "a\nb"}}; }), "headers");
  EXPECT_EQ(code([](HttpTaskOptions&) {}), "none");
}

/// A TLS server that takes requests and answers what it is told, with a certificate for 127.0.0.1 of its own.
class TlsReceiver {
 public:
  TlsReceiver() : port_(UnusedPort()) {
    const CommandResult made =
        ChildProcess({"/usr/bin/env", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                      "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key(), "-out", certificate(), "-days", "2",
                      "-subj", "/CN=task-target", "-addext", "subjectAltName=IP:127.0.0.1"},
                     {}, folder_.folder())
            .Finish();
    EXPECT_EQ(made.code, 0) << made.err;
    server_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{"/usr/bin/env", "openssl", "s_server", "-quiet", "-accept",
                                 fmt::format("127.0.0.1:{}", port_), "-cert", certificate(), "-key", key()},
        std::map<std::string, std::string>{}, folder_.folder());
    EXPECT_TRUE(Eventually([&] { return Listens(); }));
  }

  std::string url(const std::string& host = "127.0.0.1") const { return fmt::format("https://{}:{}", host, port_); }
  std::string certificate() const { return folder_.folder() + "/certificate.pem"; }
  void Answer(const std::string& text) const { server_->FeedAndAwait(text); }

 private:
  std::string key() const { return folder_.folder() + "/key.pem"; }
  bool Listens() const {
    const int connection = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool listens = ::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(connection);
    return listens;
  }

  SqliteFile folder_;
  int port_;
  std::unique_ptr<ChildProcess> server_;
};

TEST_F(HttpTask, SendsNothingToAReceiverThatItDoesNotTrust) {
  const TlsReceiver receiver;
  HttpTaskOptions stranger = options();
  stranger.caller.url = receiver.url();
  const AttemptReport report = Attempt(stranger);
  EXPECT_EQ(report.verdict, AttemptVerdict::kRetry);
  EXPECT_EQ(report.code, "receiver_not_trusted");

  // The authority is known, and the certificate is for another name.
  stranger.caller.ca_file = receiver.certificate();
  stranger.caller.url = receiver.url("localhost");
  EXPECT_EQ(Attempt(stranger).code, "receiver_not_trusted");

  HttpTaskOptions known = stranger;
  known.caller.url = receiver.url();
  known.caller.timeout = seconds{5};
  AttemptReport trusted;
  // The server gives what it is fed to whoever is connected, and that may still be one of those above.
  for (int attempt_left = 5; attempt_left > 0; --attempt_left) {
    auto attempt = std::async(std::launch::async, [&] { return Attempt(known); });
    receiver.Answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    trusted = attempt.get();
    if (trusted.verdict == AttemptVerdict::kSucceeded) break;
  }
  EXPECT_EQ(trusted.verdict, AttemptVerdict::kSucceeded) << trusted.code << ": " << trusted.message;
}

TEST_F(HttpTask, SendsNothingInPlainTextToASecuredTarget) {
  HttpTaskOptions secured = options();
  secured.caller.url = "https" + receiver_.url("").substr(4);
  secured.caller.timeout = seconds{5};
  const AttemptReport report = Attempt(secured);
  EXPECT_EQ(report.verdict, AttemptVerdict::kRetry);
  EXPECT_TRUE(receiver_.requests().empty());
}

}  // namespace
}  // namespace sealane
