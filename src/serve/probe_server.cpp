// Boost, which takes many seconds to compile, stays in this file and that of the webhooks.
#include "serve/probe_server.hpp"

#include <thread>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
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

/// What connections share. Everything runs on the server's thread, so nothing needs a lock.
struct Shared {
  ProbeServerOptions options;
  Clock& clock;
  std::function<ServedStats()> stats;
  std::size_t connections = 0;

  ProbeAnswer Answer(std::string_view method, std::string_view target) const {
    const ServedStats served = stats();
    return AnswerProbe(method, target,
                       {.relays = served.relays,
                        .build = &options.build,
                        .now = clock.Now(),
                        .beat_max = options.beat_max,
                        .consumers = served.consumers,
                        .dispatchers = served.dispatchers,
                        .receive = served.receive ? &*served.receive : nullptr});
  }
};

/// One connection. It owns itself through the handlers that wait for it.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Tcp::socket socket, Shared& shared) : stream_(std::move(socket)), shared_(shared) { ++shared_.connections; }
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
    if (error == http::error::header_limit) return Send(TooLarge(431), "GET", false);
    if (error == http::error::body_limit) return Send(TooLarge(413), "GET", false);
    if (error) return Close();
    const auto& request = parser_->get();
    const std::string method(request.method_string());
    const bool has_body = parser_->chunked();
    // A body would have to be read to find the next request: nobody here has a use for it.
    Send(shared_.Answer(method, std::string_view(request.target().data(), request.target().size())), method,
         request.keep_alive() && !has_body);
  }

  static ProbeAnswer TooLarge(int status) {
    return {.status = status,
            .body = "{\"error\":{\"code\":\"request_too_large\",\"message\":\"the request is too large\"}}\n"};
  }

  void Send(ProbeAnswer answer, const std::string& method, bool keep) {
    response_ = {};
    response_.version(11);
    response_.result(static_cast<unsigned>(answer.status));
    response_.set(http::field::content_type, answer.content_type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    if (answer.allow) response_.set(http::field::allow, "GET, HEAD");
    response_.keep_alive(keep);
    const std::size_t size = answer.body.size();
    if (method != "HEAD") response_.body() = std::move(answer.body);
    response_.content_length(size);
    stream_.expires_after(shared_.options.idle_max);
    auto sent = [self = shared_from_this(), keep](error_code error, std::size_t) {
      if (error || !keep) return self->Close();
      self->Read();
    };
    if (method == "HEAD") {
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
  Shared& shared_;
  beast::flat_buffer buffer_{16 * 1024};
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
  std::optional<http::response_serializer<http::string_body>> head_;
};

class BeastServer final : public ProbeServer {
 public:
  BeastServer(ProbeServerOptions options, Clock& clock, std::function<ServedStats()> stats)
      : shared_{std::move(options), clock, std::move(stats)} {}

  ~BeastServer() override {
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
          .WithHint("choose another address with --listen HOST:PORT, or --listen off");
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
        LogWarning("probe server cannot accept", {{"error", error.message()}});
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

Result<std::unique_ptr<ProbeServer>> ProbeServer::Start(ProbeServerOptions options, Clock& clock,
                                                        std::function<ServedStats()> stats) {
  auto server = std::make_unique<BeastServer>(std::move(options), clock, std::move(stats));
  SEALANE_RETURN_IF_ERROR(server->Open());
  return std::unique_ptr<ProbeServer>(std::move(server));
}

}  // namespace sealane
