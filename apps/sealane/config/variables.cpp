#include "config/variables.hpp"

#include <algorithm>

namespace sealane::cli {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// SEALANE[_NAME]_SERVICE_HOST, ..._SERVICE_PORT[_NAME], ..._PORT, ..._PORT_5432_TCP[...].
bool IsServiceAddress(std::string_view name) {
  if (name.find("__") != std::string_view::npos) return false;
  if (name.ends_with("_SERVICE_HOST") || name.ends_with("_PORT")) return true;
  if (name.find("_SERVICE_PORT_") != std::string_view::npos) return true;
  const std::size_t port = name.find("_PORT_");
  return port != std::string_view::npos && port + 6 < name.size() && IsDigit(name[port + 6]);
}

}  // namespace

bool IsOurVariable(std::string_view name) {
  return name.starts_with("SEALANE_") && name != kFileVariable && !name.starts_with("SEALANE_TEST_") &&
         !IsServiceAddress(name);
}

}  // namespace sealane::cli
