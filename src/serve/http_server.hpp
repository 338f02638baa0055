#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sealane/result.hpp"

#include "serve/listen_address.hpp"

namespace sealane {

/// A request without a body: one that has any is answered, but the connection is closed after it.
struct HttpRequest {
  std::string method;
  std::string target;              ///< the path and its query, as they came
  std::string host = {};           ///< empty when it was not said
  std::string if_none_match = {};  ///< empty when it was not said
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  /// Besides those that every answer has: `Content-Type`, `Content-Length`, `X-Content-Type-Options`, and
  /// `Cache-Control: no-store` unless it is here.
  std::vector<std::pair<std::string, std::string>> headers = {};
};

struct HttpServerOptions {
  ListenAddress address;
  std::string hint = {};                        ///< what to do when the address is taken
  std::chrono::milliseconds idle_max{15'000};   ///< for a request to come, and for an answer to be taken
  std::chrono::milliseconds reply_max{30'000};  ///< for the handler to reply; then the client gets a 503
  std::size_t connections_max = 64;             ///< one more is closed at once
  std::size_t header_max = 8 * 1024;            ///< bytes of a request
};

/// Serves requests that only read over HTTP/1.1, on one thread of its own, until it is destroyed.
class HttpServer {
 public:
  /// Answers one request. Called once, from any thread, also when the server or the client is gone: then it does
  /// nothing.
  using Reply = std::function<void(HttpAnswer)>;
  /// Called on the server's thread, so it must not wait: what takes long is handed on, with the reply.
  using Handler = std::function<void(HttpRequest, Reply)>;

  /// kUnavailable (`address_in_use`) or kMisconfigured (`cannot_listen`) when the address cannot be had.
  static Result<std::unique_ptr<HttpServer>> Start(HttpServerOptions options, Handler handler);
  virtual ~HttpServer() = default;

  /// Where it listens, with the port that it got.
  virtual ListenAddress address() const = 0;
};

}  // namespace sealane
