#pragma once

#include <chrono>
#include <mutex>
#include <stop_token>

#include "sealane/clock.hpp"

namespace sealane {

/// Ends a wait from another thread: the one going on, or else the next. One thread waits, any may interrupt.
class Interruption {
 public:
  explicit Interruption(Clock& clock) : clock_(clock) {}

  void Raise() {
    const std::lock_guard lock(mutex_);
    raised_.request_stop();
  }

  /// Waits; true when it was interrupted, which is thereby forgotten.
  bool Wait(std::chrono::nanoseconds duration) {
    if (duration.count() > 0) clock_.SleepFor(duration, Token());
    return Take();
  }

  /// For waits that others do.
  std::stop_token Token() {
    const std::lock_guard lock(mutex_);
    return raised_.get_token();
  }

  /// True when it was interrupted, which is thereby forgotten.
  bool Take() {
    const std::lock_guard lock(mutex_);
    if (!raised_.stop_requested()) return false;
    raised_ = std::stop_source();
    return true;
  }

 private:
  Clock& clock_;
  std::mutex mutex_;
  std::stop_source raised_;
};

}  // namespace sealane
