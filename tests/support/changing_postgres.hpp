#pragma once

#include <memory>
#include <string>

namespace sealane::testing {

/// A PostgreSQL of one test's own, for tests in which the server itself is replaced (scripts/test_postgres). It is
/// stopped by its own process id and removed at the end. What goes wrong ends the test program loudly.
class ChangingPostgres {
 public:
  using Ptr = std::unique_ptr<ChangingPostgres>;

  static Ptr Start();
  /// With an archive of its write-ahead log, so that Restore() can replay it.
  static Ptr StartWithArchive();
  /// A streaming standby of `primary`.
  static Ptr StandbyOf(const ChangingPostgres& primary);
  /// From the last Backup() of `from` and its archive up to the named restore point: another timeline of the same
  /// system.
  static Ptr Restore(const ChangingPostgres& from, const std::string& point);
  /// A new cluster with another system identifier, with what the last Dump() of `from` has.
  static Ptr Load(const ChangingPostgres& from, const std::string& database);
  /// What pg_upgrade makes of `from`, which is stopped: another system identifier, the same transaction ids.
  static Ptr Upgrade(const ChangingPostgres& from);

  ~ChangingPostgres();
  ChangingPostgres(const ChangingPostgres&) = delete;
  ChangingPostgres& operator=(const ChangingPostgres&) = delete;

  int port() const { return port_; }
  std::string Url(const std::string& database = "postgres") const;

  /// Ends the recovery of a standby; it takes writes when this returns.
  void Promote() const;
  /// kill -9 of every process.
  void Crash() const;
  void Backup() const;
  void Dump(const std::string& database) const;

  /// A standby that no longer follows: what its primary commits from now on is not there after a promotion.
  void StopFollowing() const;
  /// Of a primary: a commit waits until a standby has it.
  void WaitForStandbys() const;
  /// Names this moment for Restore(), and waits until the archive has everything up to it.
  void MarkPoint(const std::string& name) const;
  /// Waits until a standby has everything that `primary` had when this was called.
  void AwaitCaughtUp(const ChangingPostgres& primary) const;

 private:
  explicit ChangingPostgres(const std::string& arguments);

  std::string folder_;
  int port_ = 0;
};

}  // namespace sealane::testing
