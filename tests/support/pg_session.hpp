#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

namespace sealane::testing {

/// An application's own libpq connection, as a test plays it. SQL errors fail the test unless asked for with Try().
class PgSession {
 public:
  explicit PgSession(const std::string& url);
  ~PgSession();
  PgSession(const PgSession&) = delete;
  PgSession& operator=(const PgSession&) = delete;

  PGconn* get() const { return connection_; }

  /// Runs statements and returns the first column of the first row, or "".
  std::string Exec(const std::string& sql);
  /// All values of a query, row by row; null is "NULL".
  std::vector<std::vector<std::string>> Query(const std::string& sql);
  /// SQLSTATE of the failure, or "" when it worked. `message` receives the server's words, detail and hint included.
  std::string Try(const std::string& sql, std::string* message = nullptr);
  int Count(const std::string& from_clause) { return std::stoi(Exec("SELECT count(*) FROM " + from_clause)); }

 private:
  PGconn* connection_;
};

/// Puts Sealane's schema into a database, with roles that all databases of the tests' server share
/// (`sealane_writer`), so that databases can be copied and many are made with few roles.
void Migrate(const std::string& url, const std::string& schema = "sealane");

}  // namespace sealane::testing
