#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "memory/call_faults.hpp"
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
  kOthersDone,
  kSettle,
  kBlockedUnits,
  kTakeChanges,
  kReadParked,
  kWaitingTopics,
  kReadWaiting,
  kReadDelayed,
  kKeepOrder,
  kTend,
};
inline constexpr std::size_t kLogCalls = 16;

/// Which calls of logs fail, and how.
using LogFaults = CallFaults<LogCall, kLogCalls>;

/// `log`, of any kind, with faults in front of it.
std::unique_ptr<OutboxLog> WithFaults(std::unique_ptr<OutboxLog> log, std::shared_ptr<LogFaults> faults);

}  // namespace sealane::memory
