#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

namespace sealane {

/// A numbered SQL script that is compiled into the program. Scripts are never changed after a release.
struct Migration {
  int number = 0;
  std::string_view name;
  std::string_view script;  ///< as written; the store fills in its placeholders
};

struct AppliedMigration {
  int number = 0;
  std::string name;
  Timestamp applied_at{};
};

/// Where a store's schema stands, compared with this program.
struct SchemaState {
  int installed = 0;  ///< 0: nothing installed
  int known = 0;      ///< the newest this program brings
  std::vector<AppliedMigration> applied;
  std::vector<Migration> pending;
};

/// Port: brings a store's schema to the version this program knows.
class Migrator {
 public:
  virtual ~Migrator() = default;

  /// Reads only. A schema newer than this program is a SchemaState with installed > known, not an error here.
  virtual Result<SchemaState> Examine() = 0;
  /// Applies what is pending in one transaction and returns it; empty when there was nothing to do. Safe to run twice
  /// and from several processes at once: one does the work, the others wait and find it done.
  /// Errors: `schema_newer` (nothing is touched), `schema_changed` (an applied script differs from the one compiled
  /// in).
  virtual Result<std::vector<AppliedMigration>> Up() = 0;
  /// The script as it would be sent, placeholders filled in, for people who run their SQL themselves.
  virtual std::string Render(const Migration& migration) const = 0;
};

/// The error for a store that a newer program has migrated.
Error SchemaIsNewer(int installed, int known);
/// The error for a store that has not been migrated at all or not far enough.
Error SchemaIsMissing(std::string_view store);
Error SchemaIsOlder(int installed, int known);

/// Hex SHA-256 that is stored beside an applied migration and compared later.
std::string Checksum(std::string_view script);

}  // namespace sealane
