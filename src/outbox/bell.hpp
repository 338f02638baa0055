#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <sys/socket.h>

#include "sealane/bell.hpp"
#include "sealane/result.hpp"

namespace sealane {

/// Where datagrams of a Bell go.
struct BellAddress {
  sockaddr_storage address{};
  socklen_t size = 0;
  std::string path = {};  ///< of a unix address
};

/// Reads `unix:PATH` or `udp:ADDRESS:PORT`. kMisconfigured (`bad_wake_address`) with a hint.
Result<BellAddress> ParseBellAddress(std::string_view text);

/// Hears the bells that are rung at an address, on a thread of its own, until it is destroyed.
class BellListener {
 public:
  /// `heard` is called on the listener's thread, once for any number of rings that came together. A socket file that
  /// a dead process left behind is replaced; one that somebody listens at is kUnavailable (`wake_address_taken`).
  static Result<std::unique_ptr<BellListener>> Start(std::string_view address, std::function<void()> heard);
  ~BellListener();
  BellListener(const BellListener&) = delete;
  BellListener& operator=(const BellListener&) = delete;

 private:
  BellListener(int socket, int wake, std::string path, std::function<void()> heard);
  void Listen() const;

  const int socket_;
  const int wake_;
  const std::string path_;
  const std::function<void()> heard_;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace sealane
