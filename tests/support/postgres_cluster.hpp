#pragma once

#include <string>

namespace sealane::testing {

/// URL of a superuser connection to the private PostgreSQL that the tests' fixture started, database `postgres`.
/// Fails the test run loudly when there is none.
std::string ClusterUrl();

struct Migrated {};
inline constexpr Migrated kMigrated{};

/// A database of its own for one test, made now, dropped at the end.
class ScratchDatabase {
 public:
  ScratchDatabase() : ScratchDatabase("template1") {}
  /// With Sealane's tables in it. They are copied from a database that whoever comes first migrates, which takes half
  /// the time of migrating each.
  explicit ScratchDatabase(Migrated);
  ~ScratchDatabase();
  ScratchDatabase(const ScratchDatabase&) = delete;
  ScratchDatabase& operator=(const ScratchDatabase&) = delete;

  const std::string& url() const { return url_; }
  const std::string& name() const { return name_; }
  /// The same database for another user.
  std::string UrlAs(const std::string& user) const;

 private:
  /// A copy of another one.
  explicit ScratchDatabase(const std::string& original);

  std::string name_;
  std::string url_;
};

}  // namespace sealane::testing
