#include "outbox/migration.hpp"

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"

namespace sealane {

Error SchemaIsNewer(int installed, int known) {
  return Error(ErrorKind::kMisconfigured, "schema_newer",
               fmt::format("the store's schema is version {}, this program knows up to {}", installed, known))
      .WithHint("install the newer sealane on this machine; nothing was changed");
}

Error SchemaIsMissing(std::string_view store) {
  return Error(ErrorKind::kMisconfigured, "schema_missing", fmt::format("{} has no Sealane tables", store))
      .WithHint("create them with: sealane migrate up");
}

Error SchemaIsOlder(int installed, int known) {
  return Error(ErrorKind::kMisconfigured, "schema_older",
               fmt::format("the store's schema is version {}, this program needs {}", installed, known))
      .WithHint("bring it up to date with: sealane migrate up");
}

std::string Checksum(std::string_view script) {
  return ToHex(Sha256(script));
}

}  // namespace sealane
