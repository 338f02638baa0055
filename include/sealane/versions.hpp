#pragma once

#include <cstdint>

#include "sealane/result.hpp"
#include "sealane/transaction.hpp"

namespace sealane {

/// The next version of an aggregate, handed out gapless: 1, 2, 3. Takes a row lock that lasts to the end of the
/// caller's transaction, so writers of one aggregate queue up and a rollback gives the number back.
Result<std::int64_t> NextVersion(TransactionRef transaction, const AggregateName& aggregate);

/// Optimistic locking: moves the aggregate from `expected` to `expected + 1` and returns that, or fails with
/// kConflict
/// (`version_conflict`) when somebody else was faster. A new aggregate stands at 0.
Result<std::int64_t> AdvanceVersion(TransactionRef transaction, const AggregateName& aggregate,
                                    std::int64_t expected);

}  // namespace sealane
