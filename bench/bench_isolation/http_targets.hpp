#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sealane::bench {

/// HTTP servers on ports of their own that answer 200 to every request at once, in one thread. The one that hangs
/// accepts connections and requests and never answers.
class HttpTargets {
 public:
  explicit HttpTargets(std::size_t count);
  ~HttpTargets();
  HttpTargets(const HttpTargets&) = delete;
  HttpTargets& operator=(const HttpTargets&) = delete;

  std::string url(std::size_t target) const;
  /// Before its first request.
  void Hang(std::size_t target) { targets_[target]->hangs = true; }
  /// Requests that were answered, or taken by the one that hangs.
  std::size_t requests(std::size_t target) const { return targets_[target]->requests; }

 private:
  struct Target {
    int listener = -1;
    int port = 0;
    std::atomic<bool> hangs = false;
    std::atomic<std::size_t> requests = 0;
  };
  struct Connection {
    int socket = -1;
    Target* target = nullptr;
    std::string buffer;
  };
  void Serve(const std::stop_token& stop);
  /// False: it is closed.
  static bool Answer(Connection& connection);

  std::vector<std::unique_ptr<Target>> targets_;
  std::jthread server_;
};

}  // namespace sealane::bench
