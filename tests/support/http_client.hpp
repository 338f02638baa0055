#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sealane::testing {

struct HttpAnswer {
  int status = 0;                              ///< 0: there was none
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
};

/// A connection to a server on this machine, by bytes, so that a test can be as slow and as rude as it likes.
class HttpConnection {
 public:
  explicit HttpConnection(int port);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool connected() const { return socket_ >= 0; }
  /// False when the other side has gone.
  bool Send(const std::string& bytes) const;
  /// The next answer; status 0 when the connection ended before, or after a generous time.
  HttpAnswer Read();

 private:
  bool More();

  int socket_ = -1;
  std::string buffer_;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// A whole request with a body, as bytes.
std::string PostText(const std::string& target, const HttpHeaders& headers, const std::string& body);
/// Over a connection of its own.
HttpAnswer HttpPost(int port, const std::string& target, const HttpHeaders& headers, const std::string& body);

}  // namespace sealane::testing
