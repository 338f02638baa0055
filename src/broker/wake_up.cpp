#include "broker/wake_up.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace sealane {

Result<WakeUp> WakeUp::Make() {
  const int descriptor = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (descriptor < 0) {
    return Error(ErrorKind::kUnavailable, "no_file_descriptor", fmt::format("eventfd failed, errno {}", errno))
        .WithHint("raise the limit of open files (ulimit -n)");
  }
  return WakeUp(descriptor);
}

WakeUp::WakeUp(WakeUp&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

WakeUp::~WakeUp() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void WakeUp::Ring() const {
  const std::uint64_t one = 1;
  // The only way to fail is a full counter, and then it rings already.
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, &one, sizeof one);
}

void WakeUp::Clear() const {
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t read = ::read(descriptor_, &rings, sizeof rings);
}

bool WakeUp::Wait(std::chrono::milliseconds limit) const {
  pollfd entry{.fd = descriptor_, .events = POLLIN, .revents = 0};
  const auto milliseconds =
      std::clamp<std::chrono::milliseconds::rep>(limit.count(), 0, std::numeric_limits<int>::max());
  return ::poll(&entry, 1, static_cast<int>(milliseconds)) != 0;  // a signal is a ring too: the caller looks again
}

}  // namespace sealane
