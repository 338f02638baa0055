#include "http_server.hpp"

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace example {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;
using Handle = std::function<Response(const Request&)>;

/// One connection. It lives as long as an operation on it is under way.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Tcp::socket socket, const Handle& handle) : stream_(std::move(socket)), handle_(handle) {
    parser_.body_limit(64 * 1024);
  }

  void Read() {
    stream_.expires_after(std::chrono::seconds{5});
    http::async_read(stream_, buffer_, parser_, [self = shared_from_this()](beast::error_code error, std::size_t) {
      if (!error) self->Answer();
    });
  }

 private:
  void Answer() {
    const auto& request = parser_.get();
    const Response response = handle_({.method = std::string(request.method_string()),
                                       .target = std::string(request.target()),
                                       .idempotency_key = std::string(request["Idempotency-Key"]),
                                       .body = request.body()});
    response_.result(static_cast<unsigned>(response.status));
    response_.set(http::field::content_type, "application/json");
    response_.keep_alive(false);
    response_.body() = response.body;
    response_.prepare_payload();
    stream_.expires_after(std::chrono::seconds{5});
    http::async_write(stream_, response_, [self = shared_from_this()](beast::error_code ignored, std::size_t) {
      self->stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
    });
  }

  beast::tcp_stream stream_;
  const Handle& handle_;
  beast::flat_buffer buffer_;
  http::request_parser<http::string_body> parser_;
  http::response<http::string_body> response_;
};

}  // namespace

class HttpServer::Impl {
 public:
  Impl(std::uint16_t port, int threads, Handle handle)
      : handle_(std::move(handle)),
        context_(threads),
        acceptor_(asio::make_strand(context_), Tcp::endpoint(asio::ip::address_v4::loopback(), port)),
        pause_(acceptor_.get_executor()) {
    Accept();
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { context_.run(); });
  }
  ~Impl() {
    asio::post(acceptor_.get_executor(), [this] {
      acceptor_.close();
      pause_.cancel();
    });
  }

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  void Accept() {
    acceptor_.async_accept(asio::make_strand(context_), [this](beast::error_code error, Tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return AcceptLater();
      std::make_shared<Session>(std::move(socket), handle_)->Read();
      Accept();
    });
  }
  /// Being out of descriptors, for example, lasts: to ask again at once would keep a processor busy with it.
  void AcceptLater() {
    pause_.expires_after(std::chrono::milliseconds{100});
    pause_.async_wait([this](beast::error_code) {
      if (acceptor_.is_open()) Accept();
    });
  }

  const Handle handle_;
  asio::io_context context_;
  Tcp::acceptor acceptor_;
  asio::steady_timer pause_;           // on the acceptor's strand, as everything that touches the acceptor is
  std::vector<std::jthread> threads_;  // last: they end when nothing is left to do, and use everything above
};

HttpServer::HttpServer(std::uint16_t port, int threads, Handle handle)
    : impl_(std::make_unique<Impl>(port, threads, std::move(handle))) {}
HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const {
  return impl_->port();
}

}  // namespace example
