#pragma once

#include <string_view>

namespace sealane::cli {

/// Names the configuration file.
inline constexpr std::string_view kFileVariable = "SEALANE_CONFIG";

/// Whether a variable is meant for the configuration, so that an unknown one is a mistake worth stopping for.
///
/// Not meant: names of the test suite (SEALANE_TEST_...), and the addresses that Kubernetes puts into every container
/// for a service whose name begins with `sealane` (SEALANE_SERVICE_HOST, SEALANE_DB_PORT_5432_TCP_ADDR, ...).
bool IsOurVariable(std::string_view name);

}  // namespace sealane::cli
