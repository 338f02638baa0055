#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace example {

struct Request {
  std::string method;
  std::string target;
  std::string idempotency_key;
  std::string body;
};

struct Response {
  int status = 200;
  std::string body;  ///< JSON
};

/// A small HTTP server on 127.0.0.1: one request per connection, bodies up to 64 KiB. It stands here for the one that
/// your service has already.
class HttpServer {
 public:
  /// `handle` is called by `threads` threads at once and does not throw. Port 0 takes a free one. Throws
  /// std::exception when it cannot listen.
  HttpServer(std::uint16_t port, int threads, std::function<Response(const Request&)> handle);
  /// Takes no more connections and waits for the requests under way.
  ~HttpServer();

  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace example
