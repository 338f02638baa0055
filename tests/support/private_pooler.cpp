#include "support/private_pooler.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <unistd.h>

#include "support/child_process.hpp"

namespace sealane::testing {
namespace {

constexpr const char* kScript = SEALANE_TEST_SOURCE_DIR "/scripts/test_pgbouncer";

CommandResult RunPoolerScript(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {kScript};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return ChildProcess(command, {}, "/").Finish();
}

}  // namespace

std::string PrivatePooler::Missing() {
  const CommandResult result = RunPoolerScript({"available"});
  return result.code == 0 ? "" : result.out + result.err;
}

PrivatePooler::PrivatePooler(int pool_size) {
  static std::atomic<int> counter{0};
  folder_ = fmt::format("{}/test-pgbouncer-{}-{}", SEALANE_TEST_BUILD_DIR, ::getpid(), ++counter);
  const CommandResult started =
      RunPoolerScript({"start", folder_, ClusterUrl(), "--pool-size", std::to_string(pool_size)});
  std::ifstream file(folder_ + ".url");
  if (started.code != 0 || !std::getline(file, url_)) {
    std::fprintf(stderr, "no pooler: %s%s\n", started.out.c_str(), started.err.c_str());
    std::abort();
  }
}

PrivatePooler::~PrivatePooler() {
  RunPoolerScript({"remove", folder_});
}

std::string PrivatePooler::UrlOf(const ScratchDatabase& database) const {
  return url_.substr(0, url_.rfind('/') + 1) + database.name();
}

std::string LeftInSessions(const std::string& url, int sessions) {
  struct Finish {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };
  struct Clear {
    void operator()(PGresult* result) const { PQclear(result); }
  };
  using Handle = std::unique_ptr<PGconn, Finish>;
  std::vector<Handle> clients;
  std::set<std::string> seen;
  for (int i = 0; i < sessions; ++i) {
    PGconn* const client = clients.emplace_back(PQconnectdb(url.c_str())).get();
    // Keeps its session until all have looked.
    const std::unique_ptr<PGresult, Clear> begun(PQexec(client, "begin"));
    EXPECT_EQ(PQresultStatus(begun.get()), PGRES_COMMAND_OK) << PQerrorMessage(client);
    const std::unique_ptr<PGresult, Clear> found(PQexec(
        client,
        "select name || '=' || setting from pg_settings where source = 'session' and name <> 'application_name' "
        "union all select 'prepared ' || name from pg_prepared_statements "
        "union all select 'temporary ' || relname from pg_class where relpersistence = 't' "
        "union all select 'lock ' || objid from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"));
    EXPECT_EQ(PQresultStatus(found.get()), PGRES_TUPLES_OK) << PQerrorMessage(client);
    for (int row = 0; row < PQntuples(found.get()); ++row) seen.insert(PQgetvalue(found.get(), row, 0));
  }
  // A pooler ends the session of a client that leaves in the middle of a transaction, and what it carries.
  for (const Handle& client : clients) PQclear(PQexec(client.get(), "rollback"));
  return fmt::format("{}", fmt::join(seen, " "));
}

}  // namespace sealane::testing
