#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <libpq-fe.h>

namespace sealane::bench {

/// A benchmark has nobody to hand an error to: says what went wrong and ends the program.
[[noreturn]] void Fail(std::string_view what);

struct ResultReleaser {
  void operator()(PGresult* result) const { PQclear(result); }
};
using PgResult = std::unique_ptr<PGresult, ResultReleaser>;

/// A connection on which everything succeeds, or the benchmark ends.
class Session {
 public:
  explicit Session(const std::string& url);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  PGconn* get() const { return connection_; }
  /// The first value of the first row, or nothing.
  std::string Exec(const std::string& sql) const;
  double Number(const std::string& sql) const;
  /// Takes the result over and ends the benchmark unless it is a success.
  PgResult Checked(PGresult* result) const;

 private:
  PGconn* connection_;
};

/// A database of its own, dropped at the end.
class Database {
 public:
  /// Drops those that are there, for a program that ends without destroying them. Succeeds or does nothing.
  static void DropAll();

  Database(const std::string& cluster_url, const std::string& name);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& url() const { return url_; }
  const std::string& name() const { return name_; }
  const std::string& cluster_url() const { return cluster_url_; }

 private:
  std::string cluster_url_;
  std::string name_;
  std::string url_;
};

/// What was written between two moments.
class Writes {
 public:
  /// Counts from now on. The tables are those of `schema`.
  Writes(const Session& session, std::string schema);

  double wal_bytes() const;
  /// Row versions that updates and deletes left behind for vacuum. Waits until the server's statistics are complete,
  /// for which the sessions that wrote must be closed.
  double dead_rows() const;

 private:
  double DeadRows() const;

  const Session& session_;
  std::string schema_;
  std::string lsn_;
  double dead_rows_;
};

}  // namespace sealane::bench
