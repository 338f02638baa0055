#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "sealane/result.hpp"

namespace sealane {

/// Tells a relay that something was committed, so that it looks at the log now instead of at its next poll.
///
/// Ring it after the commit. A ring is one datagram that may get lost: the relay polls all the same, a ring only
/// saves the wait. It never blocks, never fails, and costs one system call, also when nobody listens.
///
///     const auto bell = Bell::Open("unix:/run/sealane/wake");   // relay.wake of the relay's configuration
///     ...
///     transaction.commit();
///     bell->Ring();
///
/// Ring() may be called from several threads at once. A bell that was moved from is silent.
class Bell {
 public:
  /// `unix:PATH` or `udp:ADDRESS:PORT` with a numeric address. The listener need not be there yet. kMisconfigured
  /// (`bad_wake_address`) for anything else.
  static Result<Bell> Open(std::string_view address);

  Bell(Bell&& other) noexcept { *this = std::move(other); }
  Bell& operator=(Bell&& other) noexcept;
  ~Bell();

  void Ring() const noexcept;

 private:
  Bell() = default;

  int socket_ = -1;
  std::size_t target_size_ = 0;
  alignas(8) std::array<unsigned char, 128> target_{};  // a sockaddr
};

}  // namespace sealane
