#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "inbox/inbox_store.hpp"
#include "memory/call_faults.hpp"

namespace sealane::memory {

/// The calls of an InboxStore and of its batches, for tests that count them or let them fail.
enum class InboxCall : std::uint8_t {
  kOpen,
  kExecute,
  kSettle,
  kFinish,
  kLook,
  kOpenRetry,
  kAttach,
  kDetach,
  kSavePositions,
  kPlace,
  kStop,
  kSuspect,
  kCalm,
  kCount,
  kTend,
  kPrune,
  kSetHold,
};
inline constexpr std::size_t kInboxCalls = 17;

/// Which calls of inboxes fail, and how. A commit whose answer is lost is a kFinish with kInDoubt after the work.
using InboxFaults = CallFaults<InboxCall, kInboxCalls>;

/// `store`, of any kind, with faults in front of it and of its batches.
std::unique_ptr<InboxStore> WithFaults(std::unique_ptr<InboxStore> store, std::shared_ptr<InboxFaults> faults);

}  // namespace sealane::memory
