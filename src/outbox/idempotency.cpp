#include "sealane/idempotency.hpp"

#include "sealane/admission.hpp"

#include "base/hex.hpp"
#include "base/sha256.hpp"

namespace sealane {

Result<IdempotencyOutcome> Idempotency::Begin(TransactionRef transaction, const IdempotencyClaim& claim) const {
  SEALANE_RETURN_IF_ERROR(CheckClaim(claim, Limits{}));
  return transaction->BeginOnce(claim);
}

Status Idempotency::Complete(TransactionRef transaction, const IdempotencyClaim& claim,
                             const StoredResponse& response) const {
  SEALANE_RETURN_IF_ERROR(CheckClaim(claim, Limits{}));
  return transaction->CompleteOnce(claim, response);
}

std::string HashRequest(std::string_view request) {
  return ToHex(Sha256(request));
}

}  // namespace sealane
