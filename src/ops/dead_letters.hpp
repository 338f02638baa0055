#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sealane/event_id.hpp"
#include "sealane/result.hpp"

#include "outbox/outbox_log.hpp"

namespace sealane {

/// An event that was set aside, as an operator sees it.
struct DeadLetter {
  std::string route;
  Lane lane = 0;
  std::int64_t seq = 0;
  EventId id;
  std::string unit;
  std::string tenant;
  std::string topic;
  std::string key;
  std::string type;
  ParkedState state = ParkedState::kDead;
  bool skipped = false;  ///< dead, but its followers go on without it
  std::int32_t attempts = 0;
  std::optional<Timestamp> next_attempt_at;
  std::optional<Timestamp> first_failed_at;
  std::optional<Timestamp> last_failed_at;
  std::string error_code;
  std::string error_message;
  std::int64_t followers = 0;  ///< events of the same unit that wait behind it
};

struct DeadLetterFilter {
  std::optional<std::string> route = {};
  std::optional<std::string> tenant = {};
  std::optional<std::string> topic = {};
  std::optional<std::string> key = {};
  std::optional<std::string> error_code = {};
  std::optional<ParkedState> state = {};  ///< empty: FAILED and DEAD
  std::size_t limit = 50;
};

/// Events that are to go to another topic at the destination than the one they were for.
struct RerouteRequest {
  std::optional<std::string> route = {};
  std::string topic;  ///< of dead events: their own; of waiting ones: the topic that is missing
  std::string to;
  /// Those that wait for the topic. Otherwise: dead events of the topic, and what waits behind them.
  bool waiting = false;
  std::size_t limit = 1'000;  ///< waiting events, or keys with a dead event, that one call changes
};

/// Who does something, and why. Both are required and end up in the audit trail.
struct OperatorAction {
  std::string actor;
  std::string reason;
};

struct AuditRecord {
  std::int64_t id = 0;
  Timestamp at{};
  std::string actor;
  std::string action;  ///< `dead.retry`, `dead.discard`, `dead.skip`, `tenant.pause`, ...
  std::string target;  ///< event id, tenant, ...
  std::string reason;
  std::string login;        ///< of the database server; of a file, the operating system's user; empty: not known
  std::string client;       ///< address of the client, empty for a local socket; of a file, the host
  std::string application;  ///< the program's name as it told the server; of a file, the program's file name
};

/// Port: what operators can do about events that were set aside, and about tenants. Every change and its audit record
/// commit together.
class DeadLetters {
 public:
  virtual ~DeadLetters() = default;

  /// Longest waiting first.
  virtual Result<std::vector<DeadLetter>> List(const DeadLetterFilter& filter) = 0;
  /// One event can be set aside on several routes.
  virtual Result<std::vector<DeadLetter>> Find(const EventId& id) = 0;

  /// Makes FAILED and DEAD events due now, attempts counted from zero again. Returns how many. Followers go after
  /// them, in order.
  virtual Result<std::int64_t> Retry(const DeadLetterFilter& which, const OperatorAction& why) = 0;
  virtual Result<std::int64_t> Retry(const EventId& id, std::optional<std::string> route,
                                     const OperatorAction& why) = 0;
  /// Gives one up: it is never published, and its followers go on.
  virtual Result<std::int64_t> Discard(const EventId& id, std::optional<std::string> route,
                                       const OperatorAction& why) = 0;
  /// Lets the followers of a dead event go on; the event itself stays dead and can be retried later, out of order.
  virtual Result<std::int64_t> Skip(const EventId& id, std::optional<std::string> route,
                                    const OperatorAction& why) = 0;

  /// How many events Reroute() would change in all.
  virtual Result<std::int64_t> CountReroute(const RerouteRequest& request) = 0;
  /// Sends the first of them, in order, to the other topic. Returns how many; 0: none is left. Dead events are due at
  /// once, attempts counted from zero again.
  virtual Result<std::int64_t> Reroute(const RerouteRequest& request, const OperatorAction& why) = 0;

  /// In the order of their names. kRejected (`unknown_route`), here and below.
  virtual Result<std::vector<TenantRule>> Tenants(const std::string& route) = 0;
  /// Replaces the rule of its tenant.
  virtual Status SetTenant(const std::string& route, const TenantRule& rule, const OperatorAction& why) = 0;
  /// Pauses or resumes a whole route.
  virtual Status SetPaused(const std::string& route, bool paused, const OperatorAction& why) = 0;

  /// Newest first.
  virtual Result<std::vector<AuditRecord>> Audit(std::size_t limit) = 0;
};

}  // namespace sealane
