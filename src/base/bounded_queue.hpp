#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "sealane/assert.hpp"

namespace sealane {

enum class PushOutcome : std::uint8_t {
  kPushed,
  kClosed,    ///< nobody will take it any more
  kStopped,   ///< the stop token fired
  kTimedOut,  ///< no room came up in time
};

/// Hands values from some threads to others and holds a bounded amount: so many items and so many bytes, whichever is
/// reached first. A full queue makes its writer wait, and that is all the backpressure there needs to be.
///
/// Bytes are what `weigh` says about an item. An item heavier than the whole queue is taken when the queue is empty,
/// because otherwise it could never pass; so the queue holds at most `bytes_max` or one item.
///
/// Items leave in the order they came. Close() lets readers take what is left and refuses new items. Every wait has
/// two exits: a stop token and, in the ...For forms, a deadline. Thread-safe, any number of writers and readers; it
/// must outlive its waiters.
template <class T>
class BoundedQueue {
 public:
  using Weigh = std::function<std::size_t(const T&)>;

  explicit BoundedQueue(
      std::size_t items_max, std::size_t bytes_max = std::numeric_limits<std::size_t>::max(),
      Weigh weigh = [](const T&) { return std::size_t{1}; })
      : items_max_(items_max), bytes_max_(bytes_max), weigh_(std::move(weigh)) {
    SEALANE_ASSERT(items_max > 0, "a queue holds at least one item");
  }

  /// Unless kPushed is returned the item is dropped; push a copy when it is still needed.
  [[nodiscard]] PushOutcome Push(T item, std::stop_token stop) { return PushBy(std::move(item), stop, std::nullopt); }
  [[nodiscard]] PushOutcome PushFor(T item, std::chrono::nanoseconds timeout, std::stop_token stop) {
    return PushBy(std::move(item), stop, Deadline(timeout));
  }

  /// Empty when the queue is closed and drained, or the stop token fired.
  [[nodiscard]] std::optional<T> Pop(std::stop_token stop) { return PopBy(stop, std::nullopt); }
  /// Empty also when nothing came in time.
  [[nodiscard]] std::optional<T> PopFor(std::chrono::nanoseconds timeout, std::stop_token stop) {
    return PopBy(stop, Deadline(timeout));
  }

  /// Safe to call twice and while others wait.
  void Close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    room_.notify_all();
    filled_.notify_all();
  }

  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }
  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  struct Weighed {
    T item;
    std::size_t bytes;
  };

  static SteadyTime Deadline(std::chrono::nanoseconds timeout) { return std::chrono::steady_clock::now() + timeout; }

  bool Fits(std::size_t bytes) const {
    if (items_.empty()) return true;
    return items_.size() < items_max_ && bytes <= bytes_max_ && bytes_ <= bytes_max_ - bytes;
  }

  template <class Ready>
  void Wait(std::unique_lock<std::mutex>& lock, std::condition_variable_any& changed, std::stop_token stop,
            std::optional<SteadyTime> deadline, Ready ready) {
    if (deadline) {
      changed.wait_until(lock, stop, *deadline, ready);
    } else {
      changed.wait(lock, stop, ready);
    }
  }

  PushOutcome PushBy(T item, std::stop_token stop, std::optional<SteadyTime> deadline) {
    const std::size_t bytes = weigh_(item);
    {
      std::unique_lock lock(mutex_);
      Wait(lock, room_, stop, deadline, [&] { return closed_ || Fits(bytes); });
      if (closed_) return PushOutcome::kClosed;
      if (stop.stop_requested()) return PushOutcome::kStopped;
      if (!Fits(bytes)) return PushOutcome::kTimedOut;
      items_.push_back(Weighed{std::move(item), bytes});
      bytes_ += bytes;
    }
    filled_.notify_one();
    return PushOutcome::kPushed;
  }

  std::optional<T> PopBy(std::stop_token stop, std::optional<SteadyTime> deadline) {
    std::optional<T> item;
    {
      std::unique_lock lock(mutex_);
      Wait(lock, filled_, stop, deadline, [&] { return closed_ || !items_.empty(); });
      if (items_.empty() || stop.stop_requested()) return std::nullopt;
      item.emplace(std::move(items_.front().item));
      bytes_ -= items_.front().bytes;
      items_.pop_front();
    }
    // All writers, because they wait for different amounts: the one that is woken may not fit where another would.
    room_.notify_all();
    return item;
  }

  const std::size_t items_max_;
  const std::size_t bytes_max_;
  const Weigh weigh_;
  mutable std::mutex mutex_;
  std::condition_variable_any room_;
  std::condition_variable_any filled_;
  // Guarded by mutex_.
  std::deque<Weighed> items_;
  std::size_t bytes_ = 0;
  bool closed_ = false;
};

}  // namespace sealane
