#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "outbox/outbox_log.hpp"

namespace sealane::memory {

/// The calls of an OutboxLog, for tests that count them or let them fail.
enum class LogCall : std::uint8_t {
  kBeat,
  kClaim,
  kRelease,
  kLeave,
  kLook,
  kRead,
  kSettle,
  kBlockedUnits,
  kDueUnits,
  kReadParked,
  kTend,
};
inline constexpr std::size_t kLogCalls = 11;

/// Which calls of logs fail, and how. Shared by any number of logs, on any thread.
///
///     faults->Fail(LogCall::kSettle, InDoubt(), LogFaults::When::kAfterTheWork);
class LogFaults {
 public:
  enum class When : std::uint8_t {
    kInsteadOfTheWork,  ///< nothing is done
    kAfterTheWork,      ///< it is done, and the answer is lost
  };

  /// The next `times` calls fail.
  void Fail(LogCall call, Error error, When when = When::kInsteadOfTheWork, std::int64_t times = 1);
  /// Every call fails until Heal().
  void FailAll(LogCall call, Error error, When when = When::kInsteadOfTheWork);
  /// Nothing fails any more.
  void Heal();

  /// How many calls there were, failed ones included.
  std::int64_t count(LogCall call) const;

  struct Fault {
    Error error;
    When when = When::kInsteadOfTheWork;
    std::int64_t times = 0;
  };
  /// Counts a call and tells how it fails, if it does.
  std::optional<Fault> Enter(LogCall call);

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::array<std::optional<Fault>, kLogCalls> faults_{};
  std::array<std::int64_t, kLogCalls> counts_{};
};

/// `log`, of any kind, with faults in front of it.
std::unique_ptr<OutboxLog> WithFaults(std::unique_ptr<OutboxLog> log, std::shared_ptr<LogFaults> faults);

}  // namespace sealane::memory
