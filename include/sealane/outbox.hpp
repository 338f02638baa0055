#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sealane/admission.hpp"
#include "sealane/clock.hpp"
#include "sealane/event.hpp"
#include "sealane/event_id.hpp"
#include "sealane/result.hpp"
#include "sealane/transaction.hpp"

namespace sealane {

struct OutboxOptions {
  std::string producer = {};                  ///< name of this service, for events that carry none
  Limits limits = {};                         ///< what an event may measure
  const SchemaCheck* schema_check = nullptr;  ///< optional check of payloads; must outlive the Outbox
  std::size_t batch_events_max = 10'000;
  std::size_t batch_bytes_max = std::size_t{64} << 20;
};

/// Appends events in the caller's own open transaction: they exist exactly when that transaction commits.
///
///     sealane::Outbox outbox({.producer = "shop"});
///
///     PQexec(conn, "BEGIN");
///     PQexec(conn, "INSERT INTO orders VALUES (42, 'placed')");
///     auto event = outbox.Append(
///         conn, {.topic = "orders", .key = "42", .type = "OrderPlaced", .payload = R"({"id":42})"});
///     PQexec(conn, event ? "COMMIT" : "ROLLBACK");
///
/// Nothing here talks to a broker or keeps a connection. An error means that nothing was written; without an open
/// transaction it is `no_transaction`. Thread-safe; one Outbox serves a whole process.
class Outbox {
 public:
  explicit Outbox(OutboxOptions options = {});
  /// With seams for tests. The clock and the generator must outlive the Outbox.
  Outbox(OutboxOptions options, Clock& clock, EventIdGenerator& ids);

  Result<Appended> Append(TransactionRef transaction, const Event& event) const;
  /// All or none, in one round trip, in the order given. An error names the event that is at fault.
  Result<std::vector<Appended>> AppendAll(TransactionRef transaction, std::span<const Event> events) const;

  /// The check that Append makes, for callers that want to know before they open a transaction.
  Result<NewEntry> Admit(const Event& event) const;

 private:
  OutboxOptions options_;
  Clock& clock_;
  EventIdGenerator& ids_;
};

}  // namespace sealane
