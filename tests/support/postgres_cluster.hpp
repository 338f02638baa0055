#pragma once

#include <string>

namespace sealane::testing {

/// URL of a superuser connection to the private PostgreSQL that the tests' fixture started, database `postgres`.
/// Fails the test run loudly when there is none.
std::string ClusterUrl();

/// A database of its own for one test, made now, dropped at the end.
class ScratchDatabase {
 public:
  ScratchDatabase();
  ~ScratchDatabase();
  ScratchDatabase(const ScratchDatabase&) = delete;
  ScratchDatabase& operator=(const ScratchDatabase&) = delete;

  const std::string& url() const { return url_; }
  const std::string& name() const { return name_; }
  /// The same database for another user.
  std::string UrlAs(const std::string& user) const;

 private:
  std::string name_;
  std::string url_;
};

}  // namespace sealane::testing
