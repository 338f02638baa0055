#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/handler.hpp"
#include "sealane/inbox_mode.hpp"
#include "sealane/retry_policy.hpp"

#include "broker/subscription.hpp"
#include "inbox/inbox_store.hpp"
#include "inbox/incoming.hpp"

namespace sealane {

/// The effect of an event with the message it came in. Decisions as for a Handler.
using Handling = std::function<Decision(const Envelope&, const ReceivedMessage&, HandlerTransaction&)>;
/// Types without a handler are ignored, or rejected; versions without one are rejected (`unknown_version`). The
/// handlers must outlive it.
Handling MakeHandling(const Handlers& handlers, bool reject_unknown_types = false);

struct ConsumerOptions {
  std::string consumer;  ///< names the receipts, and the group
  InboxMode mode = InboxMode::kRecord;
  std::size_t workers = 4;
  std::size_t batch_max = 100;  ///< events per transaction; 1: each in its own
  bool guard_versions = false;
  std::chrono::milliseconds gap_timeout = std::chrono::minutes{5};
  GapPolicy gap_policy = GapPolicy::kHold;
  /// Empty: every tenant. Checked before the handler sees the event.
  std::function<bool(std::string_view tenant)> tenant_allowed = {};
  RetryPolicy retry = {};
  std::int32_t crash_budget = 3;       ///< an event that took so many processes with it is dead
  std::string dead_letter_topic = {};  ///< not empty: dead events are also appended to the consumer's outbox
  std::string owner_team = {};         ///< for dead letters: who looks after them
  std::string criticality = "normal";  ///< for dead letters
  std::size_t recent_max = 20'000;     ///< kOffsets: ids remembered per partition
  std::optional<std::chrono::milliseconds> retention = std::chrono::hours{24 * 30};  ///< of receipts; empty: for ever

  /// The circuit breaker: when so many order keys, and this share of those seen, failed permanently within the
  /// window, nothing is applied until a probe succeeds. Or this many order keys, whatever the share; 0: no such
  /// limit.
  bool breaker = true;
  double breaker_share = 0.5;
  std::size_t breaker_keys = 20;
  std::size_t breaker_count = 0;
  std::chrono::milliseconds breaker_window{30'000};
  std::chrono::milliseconds breaker_probe{1'000};       ///< until the first probe; doubles after each that failed
  std::chrono::milliseconds breaker_probe_max{60'000};  ///< between probes at most
  /// At so many parked events an event that would be parked waits, unparked; 0: no limit.
  std::int64_t parked_max = 100'000;

  std::size_t memory_max = std::size_t{32} << 20U;  ///< messages that were read and are not done
  std::size_t poll_messages = 1'000;
  std::chrono::milliseconds poll_wait{250};
  std::chrono::milliseconds commit_interval{1'000};
  std::chrono::milliseconds retry_interval{250};  ///< between looks for something to try again
  std::chrono::milliseconds tend_interval{60'000};
  /// Between looks whether a topic that is being read is still the same.
  std::chrono::milliseconds topic_check_interval{60'000};
  std::chrono::milliseconds handover_patience{5'000};  ///< for transactions under way when partitions leave
  std::chrono::milliseconds retry_patience{30'000};    ///< a retry that is not over by then died with its process

  /// Order keys that the circuit breaker remembers.
  static constexpr std::size_t kBreakerKeysMax = 8'192;
};

/// kMisconfigured with a hint.
Status CheckOptions(const ConsumerOptions& options);

using OpenSubscription = std::function<Result<std::unique_ptr<Subscription>>()>;

}  // namespace sealane
