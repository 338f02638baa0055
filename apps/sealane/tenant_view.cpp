#include "tenant_view.hpp"

#include "output.hpp"

namespace sealane::cli {

std::string TenantRuleJson(const std::string& route, const TenantRule& rule) {
  return JsonDocument()
      .Text("route", route)
      .Text("tenant", rule.tenant)
      .Truth("paused", rule.paused)
      .Integer("rate_max", rule.rate_max)
      .Integer("weight", rule.weight)
      .Finish();
}

}  // namespace sealane::cli
