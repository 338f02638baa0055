#pragma once

#include <string_view>

#include "sealane/result.hpp"
#include "sealane/transaction.hpp"

namespace sealane {

/// Runs a client's request once however often it is sent, in the transaction of the business change.
///
///     auto once = idempotency.Begin(conn, {.tenant = "t1", .key = header, .request_hash = HashRequest(body)});
///     if (once->state == IdempotencyState::kReplay) return *once->response;
///     ... business change, events ...
///     idempotency.Complete(conn, claim, {.status = 201, .body = answer});      // commits with all of it
///
/// Two transactions with one key: one gets kNew, the other kInProgress while the first is open and kReplay after it
/// committed; a rollback frees the key.
class Idempotency {
 public:
  Result<IdempotencyOutcome> Begin(TransactionRef transaction, const IdempotencyClaim& claim) const;
  Status Complete(TransactionRef transaction, const IdempotencyClaim& claim, const StoredResponse& response) const;
};

/// Hex SHA-256 of a request, for IdempotencyClaim::request_hash.
std::string HashRequest(std::string_view request);

}  // namespace sealane
