#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sealane::testing {

/// A small HTTP/1.1 server in the test's own process, on a free port of the loopback interface, that answers as told
/// and remembers every request.
class HttpReceiver {
 public:
  struct Request {
    std::string method;
    std::string target;
    std::multimap<std::string, std::string> headers;  ///< names in lower case
    std::string body;

    /// The value of a header; `<none>` when it is not there.
    std::string Header(const std::string& lower_name) const;
  };
  struct Answer {
    int status = 200;
    std::vector<std::pair<std::string, std::string>> headers = {};
    bool hang_up = false;  ///< close the connection instead of answering
    std::string body = "ok";
    std::string raw = {};  ///< not empty: sent as it is in place of an answer; the connection stays open
  };
  /// Called for each request, by several threads at once. May block: then so does the answer.
  using Handler = std::function<Answer(const Request&)>;

  /// Answers 200 until it is told otherwise.
  HttpReceiver();
  ~HttpReceiver();
  HttpReceiver(const HttpReceiver&) = delete;
  HttpReceiver& operator=(const HttpReceiver&) = delete;

  std::string url(const std::string& path = "/events") const;
  void SetHandler(Handler handler);
  /// Closes the port and every connection: new ones are refused.
  void Stop();
  /// Opens the same port again.
  void Start();

  /// All requests so far, in the order they arrived.
  std::vector<Request> requests() const;
  /// Waits for so many requests. Fails the test when they do not come within a generous limit.
  void AwaitRequests(std::size_t count) const;
  /// The largest number of requests that were being answered at a time.
  std::size_t busiest() const;

 private:
  void Listen();
  void Accept();
  void Serve(int connection);
  bool AnswerOne(int connection, std::string& buffer);

  mutable std::mutex mutex_;
  mutable std::condition_variable arrived_;
  Handler handler_;
  std::vector<Request> requests_;
  std::size_t busy_ = 0;
  std::size_t busiest_ = 0;
  std::vector<int> connections_;
  int listener_ = -1;
  int port_ = 0;
  std::vector<std::jthread> servers_;
  std::jthread acceptor_;
};

}  // namespace sealane::testing
