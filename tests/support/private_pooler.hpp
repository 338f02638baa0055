#pragma once

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "support/postgres_cluster.hpp"

namespace sealane::testing {

/// A pgbouncer of its own in front of the tests' PostgreSQL, in transaction mode: every transaction of a client may
/// run in another session, and every session is used by all clients of its pool in turn. Ends with the object.
class PrivatePooler {
 public:
  /// With so many sessions for each database and role.
  explicit PrivatePooler(int pool_size = 5);
  ~PrivatePooler();
  PrivatePooler(const PrivatePooler&) = delete;
  PrivatePooler& operator=(const PrivatePooler&) = delete;

  /// Why there is none to start, for GTEST_SKIP(); empty where pgbouncer is installed.
  static std::string Missing();

  /// The same database through the pooler.
  std::string UrlOf(const ScratchDatabase& database) const;

 private:
  std::string folder_;
  std::string url_;
};

/// Ends a test, as skipped or in CI as failed, where there is no pgbouncer.
#define SEALANE_REQUIRE_POOLER()                                                                        \
  if (const std::string missing = ::sealane::testing::PrivatePooler::Missing(); !missing.empty()) {     \
    if (std::getenv("CI") != nullptr) FAIL() << "a build that counts must have pgbouncer: ./dev setup"; \
    GTEST_SKIP() << missing;                                                                            \
  }                                                                                                     \
  static_assert(true)

/// What sessions of a pool carry from one client to the next: every setting that was made for a session, and every
/// prepared statement. Looks into `sessions` of them at once, so as not to see the same one again and again. What the
/// pooler itself sets for each client (application_name) is left out.
std::string LeftInSessions(const std::string& url, int sessions);

}  // namespace sealane::testing
