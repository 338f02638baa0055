#include "connect/owner_name.hpp"

#include <fmt/format.h>
#include <unistd.h>

namespace sealane {

std::string DefaultOwner() {
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return fmt::format("{}-{}", host[0] == '\0' ? "sealane" : host, ::getpid());
}

std::string NewOwner(const std::string& base, Random& random) {
  return fmt::format("{}-{:08x}", base, random.Below(std::uint64_t{1} << 32U));
}

}  // namespace sealane
