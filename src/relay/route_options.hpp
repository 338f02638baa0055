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

#include "sealane/order_mode.hpp"

#include "broker/publisher.hpp"
#include "core/retry_policy.hpp"
#include "core/wire.hpp"
#include "outbox/outbox_log.hpp"

namespace sealane {

/// Whether events of several lanes have an order among each other, so that one relay needs all lanes.
constexpr bool SpansLanes(OrderMode mode) {
  return mode == OrderMode::kTenant || mode == OrderMode::kGlobal;
}

/// What a route carries. Patterns may contain `*`; an empty list lets everything pass. What does not pass is done as
/// soon as it is read.
struct RouteFilter {
  std::vector<std::string> topics = {};
  std::vector<std::string> types = {};
  std::vector<std::string> tenants = {};
  std::vector<std::string> aggregate_types = {};

  bool empty() const { return topics.empty() && types.empty() && tenants.empty() && aggregate_types.empty(); }
  bool Passes(const EnvelopeView& event) const;
};

/// What happens to events that fail, by the class of the failure (docs/relay.md).
struct FailurePolicy {
  RetryPolicy retry = {};  ///< FailureClass::kRetry; used up: dead
  RetryPolicy forbidden = {.first = std::chrono::seconds{30},
                           .factor = 2.0,
                           .max = std::chrono::minutes{5},
                           .jitter = 0.5,
                           .attempts_max = 0};  ///< FailureClass::kForbidden
  RetryPolicy outage = {.first = std::chrono::milliseconds{200},
                        .factor = 2.0,
                        .max = std::chrono::seconds{30},
                        .jitter = 0.5,
                        .attempts_max = 0};  ///< how long to hold after a message was given back
  bool dead_holds_followers = true;          ///< false: followers of a dead event go on without it
  std::string dead_letter_topic = {};        ///< not empty: dead events are also published there
};

struct RouteOptions {
  std::string store = "default";  ///< names the source in logs and metrics
  std::string route = "main";
  std::string owner;  ///< unique among all relays, and new with every start
  OrderMode order = OrderMode::kKey;
  WireProfile profile = WireProfile::kEnvelope;
  WireOptions wire = {};
  /// The topic for the broker; empty: the event's own. `${topic}`, `${type}`, `${tenant}`, `${aggregate_type}` and
  /// `${kind}` stand for fields of the event.
  std::string topic_template = {};
  RouteFilter filter = {};
  FailurePolicy failures = {};
  /// So many events of a tenant may be parked; its other events then have to wait, those of other tenants do not.
  /// Where the order spans lanes: so many of the route, which then waits.
  std::int64_t parked_max = 100'000;
  bool fair = true;                     ///< tenants with a long backlog do not hold up the others
  std::int64_t crowd_backlog = 50'000;  ///< what counts as long: this many numbers of the log ahead

  std::chrono::milliseconds lease_ttl{10'000};      ///< work of a dead relay is taken over after this
  std::chrono::milliseconds settle_interval{250};   ///< progress is written at most this often
  std::chrono::microseconds poll_min{1'000};        ///< between looks at a busy log
  std::chrono::milliseconds poll_max{400};          ///< between looks at an idle log
  std::chrono::milliseconds drain_timeout{10'000};  ///< at a stop: for messages that are on their way
  std::chrono::milliseconds tend_interval{60'000};  ///< between rounds of housekeeping
  std::size_t memory_max = 20 * 1024 * 1024;        ///< pages that were read and are not settled
  std::size_t page_entries = 10'000;
  std::size_t page_bytes = 8 * 1024 * 1024;
};

/// Keeps what was read and is not settled within this many bytes, in pages of which several are under way at a time.
void LimitMemory(RouteOptions& options, std::size_t memory_max);

/// Checks what can be checked without a connection: kMisconfigured with a hint.
Status CheckOptions(const RouteOptions& options);

using OpenLog = std::function<Result<std::unique_ptr<OutboxLog>>()>;
using OpenPublisher = std::function<Result<std::unique_ptr<Publisher>>()>;

}  // namespace sealane
