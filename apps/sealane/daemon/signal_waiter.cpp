#include "daemon/signal_waiter.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace sealane::cli {

Result<SignalWaiter> SignalWaiter::Make() {
  SignalWaiter waiter;
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&wanted, signal);
  ::pthread_sigmask(SIG_BLOCK, &wanted, &waiter.before_);
  waiter.signals_ = ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  waiter.event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (waiter.signals_ < 0 || waiter.event_ < 0) {
    return Error(ErrorKind::kUnavailable, "out_of_descriptors",
                 fmt::format("cannot wait for signals: {}", std::strerror(errno)))
        .WithHint("raise the limit of open files (ulimit -n)");
  }
  return waiter;
}

SignalWaiter::SignalWaiter(SignalWaiter&& other) noexcept
    : signals_(std::exchange(other.signals_, -1)), event_(std::exchange(other.event_, -1)), before_(other.before_) {}

SignalWaiter::~SignalWaiter() {
  if (event_ >= 0) ::close(event_);
  if (signals_ < 0) return;
  ::close(signals_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalWaiter::Wait(std::chrono::milliseconds limit) const {
  pollfd waiting[2] = {{signals_, POLLIN, 0}, {event_, POLLIN, 0}};
  ::poll(waiting, 2, static_cast<int>(limit.count()));
  eventfd_t ignored = 0;
  ::eventfd_read(event_, &ignored);
  signalfd_siginfo info{};
  if (::read(signals_, &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

void SignalWaiter::Poke() const {
  ::eventfd_write(event_, 1);
}

}  // namespace sealane::cli
