#include "support/postgres_cluster.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <unistd.h>

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

ScratchDatabase::ScratchDatabase() {
  static std::atomic<int> counter{0};
  name_ = fmt::format("t_{}_{}", ::getpid(), ++counter);
  RunOnCluster(fmt::format("CREATE DATABASE {}", name_));
  url_ = UrlFor(name_);
}

ScratchDatabase::~ScratchDatabase() {
  RunOnCluster(fmt::format("DROP DATABASE {} WITH (FORCE)", name_));
}

std::string ScratchDatabase::UrlAs(const std::string& user) const {
  const std::size_t from = url_.find("//") + 2;
  std::string url = url_;
  return url.replace(from, url.find('@') - from, user);
}

}  // namespace sealane::testing
