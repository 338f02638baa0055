#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace sealane::testing {

/// What stands between clients and a server that is replaced: clients keep one address of this machine. Runs in a
/// thread of its own.
class TcpProxy {
 public:
  explicit TcpProxy(int upstream);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  int port() const { return port_; }
  /// Where new connections go from now on; 0: they are closed at once. Those that are open stay, unless `cut`.
  void Point(int upstream, bool cut);

 private:
  struct Side {
    int socket = -1;
    std::vector<char> pending = {};  ///< read from the other side and not yet written here
    bool ended = false;              ///< nothing more comes from here
  };
  struct Connection {
    Side client;
    Side server;
  };

  void Run();
  void Accept();
  static bool Pump(Side& from, Side& to, short events_of_from, short events_of_to);

  int listener_ = -1;
  int wake_[2] = {-1, -1};
  int port_ = 0;
  std::atomic<int> upstream_;
  std::atomic<int> cuts_asked_{0};
  std::atomic<int> cuts_done_{0};
  std::atomic<bool> stop_{false};
  std::vector<Connection> connections_;
  std::thread thread_;
};

}  // namespace sealane::testing
