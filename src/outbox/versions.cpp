#include "sealane/versions.hpp"

#include "sealane/admission.hpp"

namespace sealane {

Result<std::int64_t> NextVersion(TransactionRef transaction, const AggregateName& aggregate) {
  SEALANE_RETURN_IF_ERROR(CheckAggregateName(aggregate, Limits{}));
  return transaction->NextVersion(aggregate);
}

Result<std::int64_t> AdvanceVersion(TransactionRef transaction, const AggregateName& aggregate,
                                    std::int64_t expected) {
  SEALANE_RETURN_IF_ERROR(CheckAggregateName(aggregate, Limits{}));
  if (expected < 0) {
    return Error(ErrorKind::kRejected, "invalid_version", "an expected version is 0 or more").WithField("expected");
  }
  return transaction->AdvanceVersion(aggregate, expected);
}

}  // namespace sealane
