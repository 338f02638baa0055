#include "support/changing_postgres.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/eventually.hpp"
#include "support/pg_session.hpp"

namespace sealane::testing {
namespace {

void RunScript(const std::string& arguments) {
  const std::string command = SEALANE_TEST_SOURCE_DIR "/scripts/test_postgres " + arguments + " >/dev/null";
  const int status = std::system(command.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  std::fprintf(stderr, "failed: scripts/test_postgres %s\n", arguments.c_str());
  std::abort();
}

std::string FreshFolder() {
  static std::atomic<int> counter{0};
  return fmt::format("{}/test-postgres-{}-{}", SEALANE_TEST_BUILD_DIR, ::getpid(), ++counter);
}

}  // namespace

// `{}` in the arguments is where the folder goes.
ChangingPostgres::ChangingPostgres(const std::string& arguments) : folder_(FreshFolder()) {
  RunScript(fmt::format(fmt::runtime(arguments), folder_));
  std::ifstream file(folder_ + ".url");
  std::string url;
  std::getline(file, url);
  port_ = std::atoi(url.c_str() + url.rfind(':') + 1);
}

ChangingPostgres::~ChangingPostgres() {
  RunScript("remove " + folder_);
}

ChangingPostgres::Ptr ChangingPostgres::Start() {
  return Ptr(new ChangingPostgres("start {}"));
}

ChangingPostgres::Ptr ChangingPostgres::StartWithArchive() {
  return Ptr(new ChangingPostgres("start {} --archive"));
}

ChangingPostgres::Ptr ChangingPostgres::StandbyOf(const ChangingPostgres& primary) {
  return Ptr(new ChangingPostgres("standby {} " + primary.folder_));
}

ChangingPostgres::Ptr ChangingPostgres::Restore(const ChangingPostgres& from, const std::string& point) {
  return Ptr(new ChangingPostgres(fmt::format("restore {{}} {} {}", from.folder_, point)));
}

ChangingPostgres::Ptr ChangingPostgres::Load(const ChangingPostgres& from, const std::string& database) {
  return Ptr(new ChangingPostgres(fmt::format("load {{}} {} {}", from.folder_, database)));
}

ChangingPostgres::Ptr ChangingPostgres::Upgrade(const ChangingPostgres& from) {
  return Ptr(new ChangingPostgres("upgrade {} " + from.folder_));
}

std::string ChangingPostgres::Url(const std::string& database) const {
  return fmt::format("postgresql://postgres@127.0.0.1:{}/{}", port_, database);
}

void ChangingPostgres::Promote() const {
  RunScript("promote " + folder_);
}

void ChangingPostgres::Crash() const {
  RunScript("crash " + folder_);
}

void ChangingPostgres::Backup() const {
  RunScript("backup " + folder_);
}

void ChangingPostgres::Dump(const std::string& database) const {
  RunScript(fmt::format("dump {} {}", folder_, database));
}

void ChangingPostgres::StopFollowing() const {
  PgSession session(Url());
  session.Exec("ALTER SYSTEM SET primary_conninfo = ''");
  session.Exec("SELECT pg_reload_conf()");
  EXPECT_TRUE(Eventually([&] { return session.Count("pg_stat_wal_receiver") == 0; })) << "it goes on following";
}

void ChangingPostgres::WaitForStandbys() const {
  PgSession session(Url());
  session.Exec("ALTER SYSTEM SET synchronous_standby_names = '*'");
  session.Exec("SELECT pg_reload_conf()");
  EXPECT_TRUE(Eventually([&] { return session.Count("pg_stat_replication WHERE sync_state = 'sync'") == 1; }))
      << "no standby is synchronous";
}

void ChangingPostgres::MarkPoint(const std::string& name) const {
  PgSession session(Url());
  session.Exec(fmt::format("SELECT pg_create_restore_point('{}')", name));
  const std::string segment = session.Exec("SELECT pg_walfile_name(pg_switch_wal())");
  EXPECT_TRUE(Eventually([&] {
    return session.Count(fmt::format("pg_stat_archiver WHERE last_archived_wal >= '{}'", segment)) == 1;
  })) << "the archive does not get "
      << segment;
}

void ChangingPostgres::AwaitCaughtUp(const ChangingPostgres& primary) const {
  const std::string end = PgSession(primary.Url()).Exec("SELECT pg_current_wal_flush_lsn()");
  PgSession session(Url());
  EXPECT_TRUE(Eventually([&] {
    return session.Exec(fmt::format("SELECT pg_last_wal_replay_lsn() >= '{}'", end)) == "t";
  })) << "the standby does not get to "
      << end;
}

}  // namespace sealane::testing
