#include "tenant.hpp"

#include "database.hpp"

namespace cases {

Tenant Tenant::Resolve(sealane::HandlerTransaction& tx, const std::string& id) {
  if (example::Query(tx, "SELECT tenant_id FROM tenant WHERE tenant_id = $1", {id}).empty()) {
    throw sealane::SealaneException(
        sealane::Error(sealane::ErrorKind::kRejected, "unknown_tenant", "there is no tenant `" + id + "`")
            .WithHint("make it known first: case_approval tenant STORE " + id));
  }
  return Tenant(id);
}

}  // namespace cases
