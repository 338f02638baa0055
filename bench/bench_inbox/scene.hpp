#pragma once

#include <cstddef>
#include <string>

#include "common/session.hpp"

namespace sealane::bench {

/// A database of PostgreSQL in which every contestant finds the same: an empty table for effects, an inbox that
/// nobody used, and a checkpoint just done.
class PostgresScene {
 public:
  PostgresScene(const std::string& cluster_url, const std::string& name);

  const std::string& url() const { return database_.url(); }
  void Reset();

  /// What was written since Reset(), by sessions that are closed now.
  struct Written {
    double wal_bytes = 0;
    double rows = 0;         ///< inserted, updated and deleted, in all tables
    double cpu_seconds = 0;  ///< of the server's sessions
  };
  Written Count() const;
  /// Ends the benchmark unless there were exactly so many effects.
  void Check(std::size_t events) const;

 private:
  void AwaitEndOfSessions() const;
  double Rows() const;
  double CpuOfEndedSessions() const;

  Database database_;
  Session session_;
  std::string lsn_;
  double rows_ = 0;
  double cpu_seconds_ = 0;
};

/// The same in a SQLite file of a directory of its own, which is removed at the end.
class SqliteScene {
 public:
  SqliteScene();
  ~SqliteScene();
  SqliteScene(const SqliteScene&) = delete;
  SqliteScene& operator=(const SqliteScene&) = delete;

  std::string store() const { return "sqlite:" + path_; }
  std::string journal() const { return "journal:" + folder_ + "/journal.db"; }
  void Reset() const;
  void Check(std::size_t events) const;
  /// Writes the messages of a feed into journal().
  void FillJournal(std::size_t events) const;

 private:
  std::string folder_;
  std::string path_;
};

}  // namespace sealane::bench
