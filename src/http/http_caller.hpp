#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/event.hpp"
#include "sealane/result.hpp"

#include "http/curl_handles.hpp"
#include "http/http_answer.hpp"

namespace sealane::http {

struct CallerOptions {
  std::string url;  ///< http:// or https://, without query; paths are appended. user:password@ is a basic login
  std::string ca_file = {};                                      ///< PEM; empty: the system's certificates
  std::chrono::milliseconds timeout = std::chrono::seconds{30};  ///< of one call, connecting included
  std::chrono::milliseconds connect_timeout = std::chrono::seconds{5};
  std::size_t response_max = std::size_t{64} << 10U;  ///< of a response that is kept
  /// A connection that turns out to be dead when it is used again makes libcurl send the request once more on a new
  /// one, unseen. False: every call has a connection of its own, and no request is sent twice.
  bool reuse_connections = true;
};

struct HttpCall {
  std::string method = "POST";
  std::string path = {};                  ///< begins with /
  std::vector<std::string> headers = {};  ///< lines as libcurl takes them
  std::string_view body = {};             ///< must outlive the call
};

struct HttpReply {
  Answer answer = {};
  std::string body = {};
  bool body_cut = false;
  std::string content_type = {};  ///< printable ASCII
  std::chrono::microseconds took{};
};

/// Makes requests below one address and waits for their answers. Redirects are not followed: they would carry
/// requests and secrets to a place nobody configured. Thread-safe: calls run side by side, each on a handle of its
/// own that is kept, with its connection, for the next one.
class HttpCaller {
 public:
  /// Nothing is connected yet. Errors are about the options.
  static Result<std::unique_ptr<HttpCaller>> Open(CallerOptions options);

  HttpReply Call(const HttpCall& call);

  const CallerOptions& options() const { return options_; }

 private:
  explicit HttpCaller(CallerOptions options) : options_(std::move(options)) {}
  EasyHandle Take();
  void GiveBack(EasyHandle handle);

  CallerOptions options_;
  std::mutex mutex_;
  std::vector<EasyHandle> idle_;  // guarded by mutex_
};

}  // namespace sealane::http
