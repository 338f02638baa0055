#pragma once

#include <string>

#include "sealane/domain_events.hpp"
#include "sealane/tasks.hpp"

#include "database.hpp"
#include "payment.hpp"

namespace payments {

/// What leaves the service, and which of its fields.
sealane::MappingPolicy PublicEvents();

/// Captures payments. Whatever the provider says, and whichever way it does, ends in Complete().
class Cashier {
 public:
  Cashier();

  /// Asks the provider and books its answer; the payment's status afterwards. A client that got no answer calls
  /// again: nothing is captured or booked twice. Throws a SealaneException, kRejected when it is about this payment
  /// alone.
  std::string Capture(example::Database& database, const Provider& provider, const std::string& payment_id) const;

  /// What is CAPTURING for longer than `seconds` has lost its process: it becomes CAPTURE_UNKNOWN. Returns how many.
  std::size_t Repair(example::Database& database, std::int64_t seconds) const;

  /// Payment, ledger, event and, while the answer is unknown, the task that asks again: all in this transaction.
  /// Empty when there is no such payment.
  std::optional<Payment::Effect> Complete(sealane::HandlerTransaction& tx, const std::string& payment_id,
                                          const ProviderAnswer& answer) const;

 private:
  sealane::Outbox outbox_{{.producer = "payments"}};
  sealane::MappingPolicy policy_;
  sealane::Tasks tasks_;
};

}  // namespace payments
