#include "support/postgres_cluster.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <unistd.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "postgres/postgres_migrator.hpp"
#include "support/pg_session.hpp"

namespace sealane::testing {
namespace {

void RunOnCluster(const std::string& statement) {
  PGconn* connection = PQconnectdb(ClusterUrl().c_str());
  PGresult* result = PQexec(connection, statement.c_str());
  if (PQresultStatus(result) != PGRES_COMMAND_OK) {
    std::fprintf(stderr, "%s: %s", statement.c_str(), PQerrorMessage(connection));
    std::abort();
  }
  PQclear(result);
  PQfinish(connection);
}

std::string UrlFor(const std::string& database);

// Other scripts are another database, on a server that outlives a run.
std::string OriginalName() {
  std::string scripts;
  for (const Migration& migration : postgres::EmbeddedMigrations()) scripts += migration.script;
  return "t_migrated_" + ToHex(Sha256(scripts)).substr(0, 16);
}

/// The name of the database that others are copied from; made by the first that asks on this server. It has no
/// connections afterwards, because one would keep it from being copied.
const std::string& MigratedOriginal() {
  static const std::string name = [] {
    const std::string wanted = OriginalName();
    constexpr std::int64_t kLock = 0x7365616c616e65;
    PgSession session(ClusterUrl());
    session.Exec(fmt::format("SELECT pg_advisory_lock({})", kLock));
    if (session.Exec(fmt::format("SELECT count(*) FROM pg_database WHERE datname = '{}'", wanted)) == "0") {
      const std::string making = wanted + "_making";
      session.Exec(fmt::format("DROP DATABASE IF EXISTS {} WITH (FORCE)", making));
      session.Exec("CREATE DATABASE " + making);
      Migrate(UrlFor(making));
      session.Exec(fmt::format("ALTER DATABASE {} RENAME TO {}", making, wanted));
      session.Exec(fmt::format("ALTER DATABASE {} ALLOW_CONNECTIONS false", wanted));
    }
    return wanted;
  }();
  return name;
}

std::string UrlFor(const std::string& database) {
  std::string url = ClusterUrl();
  return url.replace(url.rfind('/') + 1, std::string::npos, database);
}

}  // namespace

std::string ClusterUrl() {
  if (const char* url = std::getenv("SEALANE_TEST_POSTGRES")) return url;
  std::ifstream file(SEALANE_TEST_BUILD_DIR "/test-postgres.url");
  std::string url;
  if (!std::getline(file, url)) {
    std::fprintf(stderr, "no private PostgreSQL is running: use ./dev test, or scripts/test_postgres start %s\n",
                 SEALANE_TEST_BUILD_DIR "/test-postgres");
    std::exit(1);
  }
  return url;
}

ScratchDatabase::ScratchDatabase(Migrated) : ScratchDatabase(MigratedOriginal()) {}

ScratchDatabase::ScratchDatabase(const std::string& original) {
  static std::atomic<int> counter{0};
  name_ = fmt::format("t_{}_{}", ::getpid(), ++counter);
  RunOnCluster(fmt::format("CREATE DATABASE {} TEMPLATE {}", name_, original));
  url_ = UrlFor(name_);
  if (const char* pooler = std::getenv("SEALANE_TEST_POOLER")) {
    url_ = std::string(pooler).substr(0, std::string_view(pooler).rfind('/') + 1) + name_;
  }
}

ScratchDatabase::~ScratchDatabase() {
  RunOnCluster(fmt::format("DROP DATABASE {} WITH (FORCE)", name_));
  // Those that `sealane migrate up` makes for a database.
  RunOnCluster(
      fmt::format("DROP ROLE IF EXISTS sealane_{0}_writer, sealane_{0}_relay, sealane_{0}_consumer,"
                  " sealane_{0}_dispatcher, sealane_{0}_operator",
                  name_));
}

std::string ScratchDatabase::UrlAs(const std::string& user) const {
  const std::size_t from = url_.find("//") + 2;
  std::string url = url_;
  return url.replace(from, url.find('@') - from, user);
}

}  // namespace sealane::testing
