// Boost, which takes many seconds to compile, stays in this file and that of the webhooks.
#include "serve/http_server.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>
#include <pthread.h>

#include "base/log.hpp"

namespace sealane {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;
using beast::error_code;

/// The way back to the server's thread, for replies that come when the server may be gone.
class Gate {
 public:
  explicit Gate(asio::io_context& context) : context_(&context) {}
  void Close() {
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
  }
  template <class Work>
  void Post(Work work) {
    const std::lock_guard lock(mutex_);
    if (context_ != nullptr) asio::post(*context_, std::move(work));
  }

 private:
  std::mutex mutex_;
  asio::io_context* context_;  // guarded by mutex_; null: the server is gone
};

/// What connections share. Everything but the gate is used on the server's thread alone.
struct Shared {
  HttpServerOptions options;
  HttpServer::Handler handler;
  std::shared_ptr<Gate> gate;
  std::size_t connections = 0;
};

HttpAnswer Failure(int status, std::string_view code, std::string_view message) {
  return {.status = status,
          .body = fmt::format("{{\"error\":{{\"code\":\"{}\",\"message\":\"{}\"}}}}\n", code, message)};
}

/// One connection. It owns itself through the handlers that wait for it.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Tcp::socket socket, Shared& shared)
      : stream_(std::move(socket)), overdue_(stream_.get_executor()), shared_(shared) {
    ++shared_.connections;
  }
  ~Session() { --shared_.connections; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_.options.header_max));
    parser_->body_limit(0);
    stream_.expires_after(shared_.options.idle_max);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](error_code error, std::size_t) { self->OnRequest(error); });
  }

 private:
  void OnRequest(error_code error) {
    keep_ = false;
    head_only_ = false;
    if (error == http::error::header_limit)
      return Send(Failure(431, "request_too_large", "the request is too large"));
    if (error == http::error::body_limit) return Send(Failure(413, "request_too_large", "the request is too large"));
    if (error) return Close();
    const auto& request = parser_->get();
    // A body would have to be read to find the next request: nobody here has a use for it.
    keep_ = request.keep_alive() && request.count(http::field::transfer_encoding) == 0;
    head_only_ = request.method() == http::verb::head;
    const auto text = [](beast::string_view value) { return std::string(value.data(), value.size()); };
    AwaitReply();
    shared_.handler({.method = text(request.method_string()),
                     .target = text(request.target()),
                     .host = text(request[http::field::host]),
                     .if_none_match = text(request[http::field::if_none_match])},
                    MakeReply());
  }

  // The timer also keeps this connection alive while nothing else waits for it.
  void AwaitReply() {
    stream_.expires_never();
    awaited_ = ++requests_;
    overdue_.expires_after(shared_.options.reply_max);
    overdue_.async_wait([self = shared_from_this(), request = requests_](error_code stopped) {
      if (!stopped) self->OnReply(request, Failure(503, "no_answer", "it took too long to find the answer"));
    });
  }

  HttpServer::Reply MakeReply() {
    return [gate = shared_.gate, session = weak_from_this(), request = requests_](HttpAnswer answer) {
      gate->Post([session, request, answer = std::move(answer)]() mutable {
        if (const auto self = session.lock()) self->OnReply(request, std::move(answer));
      });
    };
  }

  // The first reply to a request counts.
  void OnReply(std::uint64_t request, HttpAnswer answer) {
    if (awaited_ != request) return;
    awaited_ = 0;
    overdue_.cancel();
    Send(std::move(answer));
  }

  void Send(HttpAnswer answer) {
    response_ = {};
    response_.version(11);
    response_.result(static_cast<unsigned>(answer.status));
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : answer.headers) response_.set(name, value);
    // An answer that says that nothing has changed has nothing to describe.
    if (answer.status != 304) response_.set(http::field::content_type, answer.content_type);
    response_.keep_alive(keep_);
    const std::size_t size = answer.body.size();
    if (!head_only_) response_.body() = std::move(answer.body);
    if (answer.status != 304) response_.content_length(size);
    stream_.expires_after(shared_.options.idle_max);
    auto sent = [self = shared_from_this()](error_code error, std::size_t) {
      if (error || !self->keep_) return self->Close();
      self->Read();
    };
    if (head_only_) {
      // Only the header goes out, though it tells the length that a GET would have had.
      head_.emplace(response_);
      http::async_write_header(stream_, *head_, std::move(sent));
    } else {
      http::async_write(stream_, response_, std::move(sent));
    }
  }

  void Close() {
    error_code ignored;
    stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
  }

  beast::tcp_stream stream_;
  asio::steady_timer overdue_;
  Shared& shared_;
  beast::flat_buffer buffer_{16 * 1024};
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
  std::optional<http::response_serializer<http::string_body>> head_;
  std::uint64_t requests_ = 0;  // how many have come
  std::uint64_t awaited_ = 0;   // the one that is to be replied to; 0: none
  bool keep_ = false;
  bool head_only_ = false;
};

class BeastServer final : public HttpServer {
 public:
  BeastServer(HttpServerOptions options, Handler handler) : shared_{std::move(options), std::move(handler), nullptr} {
    shared_.gate = std::make_shared<Gate>(context_);
  }

  ~BeastServer() override {
    shared_.gate->Close();
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status Open() {
    error_code error;
    const ListenAddress& wanted = shared_.options.address;
    const auto address = asio::ip::make_address(wanted.host, error);
    if (error) return CannotListen(error);
    const Tcp::endpoint endpoint(address, wanted.port);
    if (acceptor_.open(endpoint.protocol(), error); error) return CannotListen(error);
    if (acceptor_.set_option(asio::socket_base::reuse_address(true), error); error) return CannotListen(error);
    if (acceptor_.bind(endpoint, error); error) return CannotListen(error);
    if (acceptor_.listen(asio::socket_base::max_listen_connections, error); error) return CannotListen(error);
    Accept();
    thread_ = std::thread([this] { context_.run(); });
    ::pthread_setname_np(thread_.native_handle(), "http");
    return Ok();
  }

  ListenAddress address() const override {
    error_code error;
    const Tcp::endpoint endpoint = acceptor_.local_endpoint(error);
    return {.host = shared_.options.address.host, .port = endpoint.port()};
  }

 private:
  Error CannotListen(const error_code& error) const {
    const std::string where = shared_.options.address.ToString();
    if (error == asio::error::address_in_use) {
      return Error(ErrorKind::kUnavailable, "address_in_use", fmt::format("something else listens on {}", where))
          .WithHint(shared_.options.hint);
    }
    return Error(ErrorKind::kMisconfigured, "cannot_listen",
                 fmt::format("cannot listen on {}: {}", where, error.message()))
        .WithHint("is it an address of this machine, and is this user allowed to use the port?");
  }

  void Accept() {
    acceptor_.async_accept([this](error_code error, Tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        // Out of descriptors, most likely: wait for some to come back instead of asking again at once.
        LogWarning("http server cannot accept", {{"error", error.message()}});
        pause_.expires_after(std::chrono::milliseconds(500));
        return pause_.async_wait([this](error_code stopped) {
          if (!stopped) Accept();
        });
      }
      // One too many is closed by leaving its socket here.
      if (shared_.connections < shared_.options.connections_max) {
        std::make_shared<Session>(std::move(socket), shared_)->Read();
      }
      Accept();
    });
  }

  Shared shared_;
  // After `shared_`: connections that still wait are destroyed with the context, and count down there.
  asio::io_context context_{1};
  Tcp::acceptor acceptor_{context_};
  asio::steady_timer pause_{context_};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options, Handler handler) {
  auto server = std::make_unique<BeastServer>(std::move(options), std::move(handler));
  SEALANE_RETURN_IF_ERROR(server->Open());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace sealane
