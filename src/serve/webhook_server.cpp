// Boost, which takes many seconds to compile, stays in this file and that of the probes.
#include "serve/webhook_server.hpp"

#include <atomic>
#include <future>
#include <limits>
#include <set>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>
#include <pthread.h>

#include "base/log.hpp"
#include "serve/http_framing.hpp"
#include "serve/webhook_work.hpp"

namespace sealane {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;
using beast::error_code;

// How long an answer may take to be seen by a client that is still sending.
constexpr std::chrono::milliseconds kLinger{2'000};

class Session;

/// What connections share. Used on the server's thread alone, the counters apart.
struct Shared {
  WebhookServerOptions options;
  std::vector<WebhookRule> rules;
  Clock& clock;
  WebhookWork* work = nullptr;
  std::set<Session*> sessions = {};
  bool draining = false;
  std::promise<void> gone = {};  // kept when the last connection of a draining server ends
  std::atomic<std::size_t> connections = 0;
  std::atomic<std::size_t> under_way = 0;
  std::atomic<std::uint64_t> turned_away = 0;
  std::atomic<std::uint64_t> timed_out = 0;
};

/// One connection. It owns itself through the handlers that wait for it.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Tcp::socket socket, Shared& shared) : stream_(std::move(socket)), shared_(shared) {
    shared_.sessions.insert(this);
    ++shared_.connections;
  }
  ~Session() {
    LeaveRequest();
    shared_.sessions.erase(this);
    --shared_.connections;
    if (shared_.draining && shared_.sessions.empty()) shared_.gone.set_value();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void ReadHead() {
    idle_ = true;
    keep_ = false;
    whole_ = false;
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_.options.header_max));
    // Judged when it is known whom the request is for.
    parser_->body_limit(std::numeric_limits<std::uint64_t>::max());
    // The time is for the whole head: a byte now and then does not prolong it.
    stream_.expires_after(shared_.options.head_max);
    GatherHead();
  }

  /// Ends a connection on which no request is under way.
  void CloseIfIdle() {
    if (idle_) stream_.cancel();
  }

 private:
  /// Reads until the head is whole, and looks at its bytes before they are parsed: afterwards a folded line, for
  /// example, cannot be told from a whole one.
  void GatherHead() {
    const auto held = buffer_.cdata();
    const std::string_view bytes(static_cast<const char*>(held.data()), held.size());
    const auto end = FindHeadEnd(bytes);
    if (const auto fault = CheckFraming(bytes.substr(0, end.value_or(bytes.size())))) {
      idle_ = false;
      return Refuse(nullptr, RefuseWebhook(fault->status, "malformed_request", fault->message));
    }
    if (end.value_or(bytes.size()) > shared_.options.header_max) {
      idle_ = false;
      return Refuse(nullptr, RefuseWebhook(431, "header_too_large", "the headers are too large"));
    }
    if (end) {
      error_code error;
      buffer_.consume(parser_->put(buffer_.cdata(), error));
      return OnHead(error);
    }
    stream_.async_read_some(buffer_.prepare(kHeadStep),
                            [self = shared_from_this()](error_code error, std::size_t size) {
                              if (error) return self->OnHead(error);
                              self->buffer_.commit(size);
                              self->GatherHead();
                            });
  }

  void OnHead(error_code error) {
    idle_ = false;
    if (IsBadRequest(error)) {
      return Refuse(nullptr, RefuseWebhook(400, "malformed_request", "this is no HTTP request"));
    }
    // Nothing came in time on a connection that was kept: that is no fault.
    if (error == beast::error::timeout && buffer_.size() > 0) ++shared_.timed_out;
    if (error) return Close();
    TakeHead();
    auto judged = JudgeWebhookHead(head_, shared_.rules, shared_.clock.Now());
    if (auto* answer = std::get_if<WebhookAnswer>(&judged)) return Refuse(RuleOfPath(), std::move(*answer));
    rule_ = std::get<const WebhookRule*>(judged);
    if (const auto size = parser_->content_length(); size && *size > shared_.options.body_max) {
      return Refuse(rule_, TooLarge());
    }
    if (shared_.under_way >= shared_.options.requests_max) {
      WebhookAnswer answer = RefuseWebhook(503, "busy", "too many requests are under way");
      answer.retry_later = true;
      return Refuse(rule_, std::move(answer));
    }
    ++shared_.under_way;
    in_request_ = true;
    parser_->body_limit(shared_.options.body_max);
    stream_.expires_after(shared_.options.body_time);
    if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) return InviteBody();
    ReadBody();
  }

  void InviteBody() {
    invitation_ = {};
    invitation_.version(11);
    invitation_.result(http::status::continue_);
    http::async_write(stream_, invitation_, [self = shared_from_this()](error_code error, std::size_t) {
      if (error) return self->Close();
      self->ReadBody();
    });
  }

  void ReadBody() {
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code error, std::size_t) { self->OnBody(error); });
  }

  void OnBody(error_code error) {
    if (error == http::error::body_limit) return Refuse(rule_, TooLarge());
    if (error == beast::error::timeout) ++shared_.timed_out;
    if (IsBadRequest(error)) {
      return Refuse(rule_, RefuseWebhook(400, "malformed_request", "this is no HTTP request"));
    }
    if (error) return Close();
    auto judged = JudgeWebhook(head_, std::move(parser_->get().body()), *rule_, shared_.clock.Now());
    whole_ = true;
    if (auto* answer = std::get_if<WebhookAnswer>(&judged)) return Refuse(rule_, std::move(*answer));
    stream_.expires_never();
    // The worker gives its hold on the session away with the answer, so that the last one is always let go on this
    // thread.
    shared_.work->Take(std::move(std::get<WebhookDelivery>(judged)),
                       [self = shared_from_this()](WebhookAnswer answer) mutable {
                         const auto executor = self->stream_.get_executor();
                         asio::post(executor, [self = std::move(self), answer = std::move(answer)]() mutable {
                           self->Send(std::move(answer));
                         });
                       });
  }

  // Whether the other side spoke, and spoke nonsense.
  static bool IsBadRequest(const error_code& error) {
    return error && error.category() == http::make_error_code(http::error::bad_method).category() &&
           error != http::error::end_of_stream && error != http::error::partial_message;
  }

  void TakeHead() {
    const auto& request = parser_->get();
    head_ = {};
    whole_ = parser_->is_done();
    head_.method = std::string(request.method_string());
    head_.target = std::string(request.target());
    for (const auto& field : request) {
      head_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    }
    keep_ = request.keep_alive();
  }

  const WebhookRule* RuleOfPath() const {
    const std::string_view path = std::string_view(head_.target).substr(0, head_.target.find('?'));
    for (const WebhookRule& rule : shared_.rules) {
      if (rule.path == path) return &rule;
    }
    return nullptr;
  }

  WebhookAnswer TooLarge() const {
    return RefuseWebhook(413, "body_too_large",
                         fmt::format("a body of at most {} bytes is taken", shared_.options.body_max));
  }

  void Refuse(const WebhookRule* rule, WebhookAnswer answer) {
    shared_.work->CountRefusal(rule, answer);
    Send(std::move(answer));
  }

  void Send(WebhookAnswer answer) {
    LeaveRequest();
    // What was not read of a body stands in front of the next request.
    const bool keep = keep_ && whole_ && !shared_.draining;
    response_ = {};
    response_.version(11);
    response_.result(static_cast<unsigned>(answer.status));
    response_.set(http::field::content_type, "application/json");
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    if (answer.status == 405) response_.set(http::field::allow, "POST");
    if (answer.retry_later) {
      response_.set(http::field::retry_after, fmt::format("{}", shared_.options.retry_after.count()));
    }
    response_.keep_alive(keep);
    response_.body() = std::move(answer.body);
    response_.prepare_payload();
    stream_.expires_after(shared_.options.answer_max);
    http::async_write(stream_, response_, [self = shared_from_this(), keep](error_code error, std::size_t) {
      if (error) return;
      if (keep) return self->ReadHead();
      self->Close();
      // Closed with unread bytes, the connection would be reset, and the answer with it.
      if (!self->whole_) self->Linger();
    });
  }

  void Linger() {
    stream_.expires_after(kLinger);
    Discard();
  }

  void Discard() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kDiscard), [self = shared_from_this()](error_code error, std::size_t) {
      if (!error) self->Discard();
    });
  }

  void LeaveRequest() {
    if (in_request_) --shared_.under_way;
    in_request_ = false;
  }

  void Close() {
    error_code ignored;
    stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
  }

  static constexpr std::size_t kHeadStep = 4 * 1024;
  static constexpr std::size_t kDiscard = 16 * 1024;

  beast::tcp_stream stream_;
  Shared& shared_;
  beast::flat_buffer buffer_{64 * 1024};
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::empty_body> invitation_;
  http::response<http::string_body> response_;
  WebhookHead head_;
  const WebhookRule* rule_ = nullptr;
  bool idle_ = false;
  bool in_request_ = false;
  bool keep_ = false;
  bool whole_ = false;  // the body was read to its end
};

class BeastWebhookServer final : public WebhookServer {
 public:
  BeastWebhookServer(WebhookServerOptions options, std::vector<WebhookRule> rules, Clock& clock)
      : shared_{.options = std::move(options), .rules = std::move(rules), .clock = clock} {}

  ~BeastWebhookServer() override {
    context_.stop();
    if (thread_.joinable()) thread_.join();
    // The workers may still hand answers over, to nobody.
    work_.reset();
    shared_.draining = false;
  }

  Status Open(const std::function<std::unique_ptr<WebhookSink>()>& make_sink) {
    error_code error;
    const ListenAddress& wanted = shared_.options.address;
    const auto address = asio::ip::make_address(wanted.host, error);
    if (error) return CannotListen(error);
    const Tcp::endpoint endpoint(address, wanted.port);
    if (acceptor_.open(endpoint.protocol(), error); error) return CannotListen(error);
    if (acceptor_.set_option(asio::socket_base::reuse_address(true), error); error) return CannotListen(error);
    if (acceptor_.bind(endpoint, error); error) return CannotListen(error);
    if (acceptor_.listen(asio::socket_base::max_listen_connections, error); error) return CannotListen(error);
    address_ = {.host = wanted.host, .port = acceptor_.local_endpoint(error).port()};
    work_ = std::make_unique<WebhookWork>(shared_.options, shared_.rules, make_sink, shared_.clock);
    shared_.work = work_.get();
    Accept();
    thread_ = std::thread([this] { context_.run(); });
    ::pthread_setname_np(thread_.native_handle(), "hooks-http");
    return Ok();
  }

  bool Drain(std::chrono::milliseconds limit) override {
    auto gone = shared_.gone.get_future();
    draining_ = true;
    asio::post(context_, [this] {
      shared_.draining = true;
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
      if (shared_.sessions.empty()) return shared_.gone.set_value();
      const std::vector<Session*> sessions(shared_.sessions.begin(), shared_.sessions.end());
      for (Session* const session : sessions) session->CloseIfIdle();
    });
    return gone.wait_for(limit) == std::future_status::ready;
  }

  ReceiveStats stats() const override {
    ReceiveStats stats = work_->stats();
    stats.connections = shared_.connections;
    stats.under_way = shared_.under_way;
    stats.turned_away = shared_.turned_away;
    stats.timed_out = shared_.timed_out;
    stats.draining = draining_;
    return stats;
  }

  ListenAddress address() const override { return address_; }

 private:
  Error CannotListen(const error_code& error) const {
    const std::string where = shared_.options.address.ToString();
    if (error == asio::error::address_in_use) {
      return Error(ErrorKind::kUnavailable, "address_in_use", fmt::format("something else listens on {}", where))
          .WithHint("choose another address with --listen HOST:PORT");
    }
    return Error(ErrorKind::kMisconfigured, "cannot_listen",
                 fmt::format("cannot listen on {}: {}", where, error.message()))
        .WithHint("is it an address of this machine, and is this user allowed to use the port?");
  }

  void Accept() {
    acceptor_.async_accept([this](error_code error, Tcp::socket socket) {
      if (error == asio::error::operation_aborted || shared_.draining) return;
      if (error) {
        // Out of descriptors, most likely: wait for some to come back instead of asking again at once.
        LogWarning("webhook server cannot accept", {{"error", error.message()}});
        pause_.expires_after(std::chrono::milliseconds(500));
        return pause_.async_wait([this](error_code stopped) {
          if (!stopped) Accept();
        });
      }
      if (shared_.sessions.size() < shared_.options.connections_max) {
        std::make_shared<Session>(std::move(socket), shared_)->ReadHead();
      } else {
        ++shared_.turned_away;
      }
      Accept();
    });
  }

  Shared shared_;
  // After `shared_`: connections that still wait are destroyed with the context, and leave their names there.
  asio::io_context context_{1};
  // A request that a worker has leaves nothing to wait for here, and its answer has to come back all the same.
  asio::executor_work_guard<asio::io_context::executor_type> open_{context_.get_executor()};
  Tcp::acceptor acceptor_{context_};
  asio::steady_timer pause_{context_};
  ListenAddress address_;
  std::atomic<bool> draining_ = false;
  std::unique_ptr<WebhookWork> work_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<WebhookServer>> WebhookServer::Start(WebhookServerOptions options,
                                                            std::vector<WebhookRule> rules,
                                                            std::function<std::unique_ptr<WebhookSink>()> make_sink,
                                                            Clock& clock) {
  auto server = std::make_unique<BeastWebhookServer>(std::move(options), std::move(rules), clock);
  SEALANE_RETURN_IF_ERROR(server->Open(make_sink));
  return std::unique_ptr<WebhookServer>(std::move(server));
}

}  // namespace sealane
