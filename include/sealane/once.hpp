#pragma once

#include <string_view>

#include "sealane/result.hpp"
#include "sealane/transaction.hpp"

namespace sealane {

/// For effects whose identity is not the event's: the same payment announced by two different events is booked once.
///
///     if (!ValueOrThrow(sealane::EnsureOnce(tx, "payment", payment_id))) return sealane::Decision::Ignore("paid");
///     ... book it ...
///
/// True for the first that asks for (scope, key), false ever after, whoever asks: keys are of the store, not of a
/// consumer. The key is taken with the transaction and free again when that rolls back. Two transactions at once: the
/// second waits for the end of the first, and gets false when that commits and true when it rolls back. Asked again
/// in the same transaction it is false, because a consumer applies many events in one. Under an isolation level that
/// hides what the first has committed, the second gets kConflict and is to be run again.
///
/// `scope` has 1 to 255 bytes and names the kind of effect (put a tenant into the key where tenants have keys of
/// their own), `key` has 1 to 1,024; both are UTF-8 without NUL, else kRejected (`invalid_once`). Keys are kept for
/// ever (docs/inbox.md tells how to prune them).
Result<bool> EnsureOnce(TransactionRef transaction, std::string_view scope, std::string_view key);

}  // namespace sealane
