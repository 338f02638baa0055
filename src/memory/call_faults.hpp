#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "sealane/result.hpp"

namespace sealane::memory {

/// Which calls of a port fail, and how. `Call` is an enum of the port's calls, from 0 up to kCalls. Shared by any
/// number of objects, on any thread.
///
///     faults->Fail(InboxCall::kFinish, InDoubt(), InboxFaults::When::kAfterTheWork);
template <class Call, std::size_t kCalls>
class CallFaults {
 public:
  enum class When : std::uint8_t {
    kInsteadOfTheWork,  ///< nothing is done
    kAfterTheWork,      ///< it is done, and the answer is lost
  };
  struct Fault {
    Error error;
    When when = When::kInsteadOfTheWork;
    std::int64_t times = 0;
    std::int64_t after = 0;
  };

  /// Lets `after` more calls go well, then `times` calls fail.
  void Fail(Call call, Error error, When when = When::kInsteadOfTheWork, std::int64_t times = 1,
            std::int64_t after = 0) {
    const std::lock_guard lock(mutex_);
    faults_.at(static_cast<std::size_t>(call)) = Fault{std::move(error), when, times, after};
  }
  /// Every call fails until Heal().
  void FailAll(Call call, Error error, When when = When::kInsteadOfTheWork) {
    Fail(call, std::move(error), when, std::numeric_limits<std::int64_t>::max());
  }
  /// Nothing fails any more.
  void Heal() {
    const std::lock_guard lock(mutex_);
    faults_ = {};
  }

  /// How many calls there were, failed ones included.
  std::int64_t count(Call call) const {
    const std::lock_guard lock(mutex_);
    return counts_.at(static_cast<std::size_t>(call));
  }

  /// Counts a call and does its work, unless it is to fail.
  template <class Work>
  auto Run(Call call, const Work& work) -> decltype(work()) {
    auto fault = Enter(call);
    if (!fault) return work();
    // The caller learns nothing about how the work went.
    if (fault->when == When::kAfterTheWork) static_cast<void>(work());
    return std::move(fault->error);
  }

 private:
  std::optional<Fault> Enter(Call call) {
    const std::lock_guard lock(mutex_);
    ++counts_.at(static_cast<std::size_t>(call));
    std::optional<Fault>& fault = faults_.at(static_cast<std::size_t>(call));
    if (!fault) return std::nullopt;
    if (fault->after > 0) {
      --fault->after;
      return std::nullopt;
    }
    std::optional<Fault> now = fault;
    if (--fault->times == 0) fault.reset();
    return now;
  }

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::array<std::optional<Fault>, kCalls> faults_{};
  std::array<std::int64_t, kCalls> counts_{};
};

}  // namespace sealane::memory
