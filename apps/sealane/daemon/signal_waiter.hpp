#pragma once

#include <chrono>
#include <csignal>
#include <optional>

#include "sealane/result.hpp"

namespace sealane::cli {

/// Lets the main thread wait for signals and for a call of Poke(), with a limit.
///
/// From Make() to the destructor SIGTERM, SIGINT and SIGHUP are blocked in the calling thread and in every thread it
/// starts, so that they arrive here and nowhere else. SIGPIPE is ignored from then on: a reader that went away is an
/// error of write().
class SignalWaiter {
 public:
  static Result<SignalWaiter> Make();
  SignalWaiter(SignalWaiter&& other) noexcept;
  SignalWaiter& operator=(SignalWaiter&&) = delete;
  ~SignalWaiter();

  /// A signal; or empty after a Poke() or when the time is over.
  std::optional<int> Wait(std::chrono::milliseconds limit) const;
  /// Ends the current or the next Wait(). From any thread.
  void Poke() const;

 private:
  SignalWaiter() = default;

  int signals_ = -1;
  int event_ = -1;
  sigset_t before_{};
};

}  // namespace sealane::cli
