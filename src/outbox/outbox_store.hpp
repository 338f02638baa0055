#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/envelope.hpp"
#include "sealane/transaction.hpp"

#include "outbox/migration.hpp"

namespace sealane {

/// Where an event stands on one route. Derived from log, cursor and parked rows; never stored per event.
enum class DeliveryState : std::uint8_t { kPending, kPublishing, kPublished, kFailed, kDead, kDiscarded };
/// `PENDING`, ... as the status view shows it.
std::string_view ToString(DeliveryState state);
std::optional<DeliveryState> ParseDeliveryState(std::string_view text);

/// The life of one event on one route.
struct RouteStatus {
  std::string route = {};
  DeliveryState state = DeliveryState::kPending;
  std::int32_t attempts = 0;
  std::optional<Timestamp> next_attempt_at = {};
  std::optional<Timestamp> published_at = {};
  std::string last_error_code = {};
  std::string last_error_message = {};
  std::string rerouted_to = {};  ///< the topic that an operator chose instead of the event's own
};

/// An event as the log holds it.
struct StoredMessage {
  Envelope envelope;
  std::int64_t seq = 0;
  std::int32_t lane = 0;
  Timestamp appended_at{};
  std::size_t payload_size = 0;
  bool payload_loaded = true;  ///< false: a listing left the payload out, or the user may not read it
  std::vector<RouteStatus> routes;
};

/// Which messages to list. Empty fields do not filter. Newest first.
struct MessageFilter {
  std::optional<std::string> tenant = {};
  std::optional<std::string> topic = {};
  std::optional<std::string> key = {};
  std::optional<std::string> type = {};
  std::optional<std::string> aggregate_type = {};
  std::optional<std::string> aggregate_id = {};
  std::optional<std::string> correlation_id = {};
  std::optional<DeliveryState> state = {};
  std::optional<std::string> route = {};
  std::optional<Timestamp> since = {};          ///< appended at or after
  std::optional<Timestamp> until = {};          ///< appended before
  std::optional<std::int64_t> before_seq = {};  ///< next page: the smallest seq of the last one
  std::size_t limit = 50;                       ///< 1 .. kListMax
  bool with_payload = false;

  static constexpr std::size_t kListMax = 10'000;
};

/// A transaction that we opened ourselves. Destroying it unfinished rolls back.
class OwnedTransaction : public Transaction {
 public:
  /// kInDoubt when the connection broke while the commit was under way.
  virtual Status Commit() = 0;
  virtual Status Rollback() = 0;
};

struct SweepReport {
  std::int64_t unique_forgotten = 0;       ///< fingerprints past their memory
  std::int64_t idempotency_forgotten = 0;  ///< responses past their memory
};

/// Port: one connection of our own to a store with an outbox. Not thread-safe; a worker owns one for life.
class OutboxStore {
 public:
  virtual ~OutboxStore() = default;

  virtual Result<std::unique_ptr<OwnedTransaction>> Begin() = 0;
  /// Committed events only, newest first, bounded by the filter's limit.
  virtual Result<std::vector<StoredMessage>> ListMessages(const MessageFilter& filter) = 0;
  /// Empty when there is no such committed event. kCorrupt (`payload_hash_mismatch`) when the stored bytes changed.
  virtual Result<std::optional<StoredMessage>> FindMessage(const EventId& id) = 0;
  /// Forgets uniqueness and idempotency records that are past their memory, at most `limit` of each.
  virtual Result<SweepReport> ForgetExpired(std::size_t limit) = 0;
};

}  // namespace sealane
