#include "outbox/bell.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.hpp"

namespace sealane {
namespace {

Error BadAddress(std::string_view text) {
  return Error(ErrorKind::kMisconfigured, "bad_wake_address",
               fmt::format("`{}` is not an address for wake-ups", EscapeForTerminal(text)))
      .WithHint("write unix:/run/sealane/wake or udp:127.0.0.1:9465");
}

Result<BellAddress> UnixAddress(std::string_view path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path || path.find('\0') != std::string_view::npos) {
    return Error(ErrorKind::kMisconfigured, "bad_wake_address", "the path of the wake-up socket is empty or too long")
        .WithHint(fmt::format("a socket's path has at most {} bytes", sizeof address.sun_path - 1));
  }
  path.copy(address.sun_path, path.size());
  BellAddress result{.address = {}, .size = sizeof address, .path = std::string(path)};
  std::memcpy(&result.address, &address, sizeof address);
  return result;
}

Result<BellAddress> UdpAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return BadAddress(text);
  std::string host(text.substr(0, colon));
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [rest, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (failure != std::errc{} || rest != digits.data() + digits.size() || port == 0) return BadAddress(text);
  if (host == "localhost") host = "127.0.0.1";
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  BellAddress result;
  sockaddr_in four{};
  sockaddr_in6 six{};
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    std::memcpy(&result.address, &four, sizeof four);
    result.size = sizeof four;
  } else if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    std::memcpy(&result.address, &six, sizeof six);
    result.size = sizeof six;
  } else {
    return BadAddress(text);
  }
  return result;
}

Error SystemError(const char* what, int error) {
  return Error(ErrorKind::kUnavailable, "wake_address_unusable", fmt::format("{}: {}", what, std::strerror(error)))
      .WithHint("is the folder there and writable? The relay also works without wake-ups, at the pace of its polls");
}

// Whether the socket file at this address belongs to nobody any more.
bool IsLeftBehind(const BellAddress& address) {
  const int probe = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const int result = ::connect(probe, reinterpret_cast<const sockaddr*>(&address.address), address.size);
  const bool refused = result != 0 && errno == ECONNREFUSED;
  ::close(probe);
  return refused;
}

int BindTo(int socket, const BellAddress& address) {
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address.address), address.size) == 0 ? 0 : errno;
}

}  // namespace

Result<BellAddress> ParseBellAddress(std::string_view text) {
  if (text.starts_with("unix:")) return UnixAddress(text.substr(5));
  if (text.starts_with("udp:")) return UdpAddress(text.substr(4));
  return BadAddress(text);
}

// ---- ringing ----

Result<Bell> Bell::Open(std::string_view address) {
  SEALANE_ASSIGN_OR_RETURN(const BellAddress target, ParseBellAddress(address));
  Bell bell;
  static_assert(sizeof target.address <= sizeof bell.target_);
  bell.socket_ = ::socket(target.address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (bell.socket_ < 0) return SystemError("cannot make a socket", errno);
  std::memcpy(bell.target_.data(), &target.address, target.size);
  bell.target_size_ = target.size;
  return bell;
}

Bell& Bell::operator=(Bell&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(target_size_, other.target_size_);
  std::swap(target_, other.target_);
  return *this;
}

Bell::~Bell() {
  if (socket_ >= 0) ::close(socket_);
}

void Bell::Ring() const noexcept {
  if (socket_ < 0) return;
  // Nobody listens, or the listener has enough rings queued: both are fine.
  [[maybe_unused]] const ssize_t sent =
      ::sendto(socket_, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(target_.data()),
               static_cast<socklen_t>(target_size_));
}

// ---- hearing ----

Result<std::unique_ptr<BellListener>> BellListener::Start(std::string_view text, std::function<void()> heard) {
  SEALANE_ASSIGN_OR_RETURN(const BellAddress address, ParseBellAddress(text));
  const int socket = ::socket(address.address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return SystemError("cannot make a socket", errno);
  int failure = BindTo(socket, address);
  if (failure == EADDRINUSE && !address.path.empty() && IsLeftBehind(address)) {
    ::unlink(address.path.c_str());
    failure = BindTo(socket, address);
  }
  if (failure != 0) {
    ::close(socket);
    if (failure != EADDRINUSE) return SystemError("cannot listen for wake-ups", failure);
    return Error(ErrorKind::kUnavailable, "wake_address_taken",
                 fmt::format("somebody else listens at {}", EscapeForTerminal(text)))
        .WithHint("give each relay of this machine a relay.wake of its own");
  }
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    const int error = errno;
    ::close(socket);
    return SystemError("cannot make an event", error);
  }
  return std::unique_ptr<BellListener>(new BellListener(socket, wake, address.path, std::move(heard)));
}

BellListener::BellListener(int socket, int wake, std::string path, std::function<void()> heard)
    : socket_(socket), wake_(wake), path_(std::move(path)), heard_(std::move(heard)), thread_([this] { Listen(); }) {
  ::pthread_setname_np(thread_.native_handle(), "bell");
}

BellListener::~BellListener() {
  ::eventfd_write(wake_, 1);
  thread_.join();
  if (!path_.empty()) ::unlink(path_.c_str());
  ::close(socket_);
  ::close(wake_);
}

void BellListener::Listen() const {
  while (true) {
    pollfd waiting[2] = {{socket_, POLLIN, 0}, {wake_, POLLIN, 0}};
    if (::poll(waiting, 2, -1) < 0 && errno != EINTR) return;
    if (waiting[1].revents != 0) return;
    bool rung = false;
    char byte = 0;
    while (::recv(socket_, &byte, 1, MSG_DONTWAIT) >= 0) rung = true;
    if (rung) heard_();
  }
}

}  // namespace sealane
