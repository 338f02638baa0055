// Each way a PostgreSQL can fail an operator: its own clear message, its own exit code, and nothing half-written.

#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../apps/sealane/exit_code.hpp"
#include "support/child_process.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

using cli::ExitCode;
using testing::CommandResult;
using ::testing::HasSubstr;
using testing::Migrate;
using testing::PgSession;
using testing::RunSealane;
using testing::ScratchDatabase;

std::vector<std::string> EmitTo(const std::string& url, const std::string& payload = "{}") {
  return {"emit",   "--store",     url,         "--topic", "orders", "--key", "o-1",
          "--type", "OrderPlaced", "--payload", payload,   "-o",     "json"};
}

void ExpectError(const CommandResult& result, ExitCode exit_code, const std::string& code) {
  EXPECT_EQ(result.code, static_cast<int>(exit_code)) << result.err;
  EXPECT_EQ(result.out, "") << "nothing but the error";
  const auto document = nlohmann::json::parse(result.err, nullptr, false);
  ASSERT_FALSE(document.is_discarded()) << result.err;
  EXPECT_EQ(document["error"]["code"], code) << result.err;
  EXPECT_NE(document["error"]["message"], "");
  EXPECT_NE(document["error"]["hint"], "") << "every failure says what to do next";
}

/// URL of the same server and database for another user, with a password.
std::string UrlWithLogin(const ScratchDatabase& database, const std::string& user, const std::string& password) {
  return database.UrlAs(user + ":" + password);
}

TEST(PostgresFailures, WrongAddressIsUnreachable) {
  ExpectError(RunSealane(EmitTo("postgres://u@127.0.0.1:1/db")), ExitCode::kStoreUnreachable, "store_unreachable");
}

TEST(PostgresFailures, AUrlThatIsNoneIsAConfigurationError) {
  ExpectError(RunSealane(EmitTo("postgres://u@127.0.0.1:port/db")), ExitCode::kBadConfiguration, "invalid_store_url");
}

TEST(PostgresFailures, MissingDatabaseIsNamed) {
  ScratchDatabase database;
  std::string url = database.url();
  ExpectError(RunSealane(EmitTo(url.replace(url.rfind('/') + 1, std::string::npos, "no_such_database"))),
              ExitCode::kDatabaseMissing, "database_missing");
}

TEST(PostgresFailures, WrongPasswordIsALoginErrorAndNeverShown) {
  ScratchDatabase database;
  const CommandResult wrong = RunSealane(EmitTo(UrlWithLogin(database, "pw_user", "canary-secret")));
  ExpectError(wrong, ExitCode::kLoginRefused, "login_refused");
  EXPECT_THAT(wrong.err, Not(HasSubstr("canary-secret")));
  ExpectError(RunSealane(EmitTo(database.UrlAs("pw_user"))), ExitCode::kLoginRefused, "login_refused");

  // The right password, from a file.
  Migrate(database.url());
  PgSession(database.url()).Exec("GRANT sealane_writer TO pw_user");
  const auto file = std::filesystem::temp_directory_path() / fmt::format("sealane-password-{}", getpid());
  std::ofstream(file) << "right-password\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  const CommandResult right =
      RunSealane(EmitTo(database.UrlAs("pw_user")), {}, {{"SEALANE_STORE__PASSWORD_FILE", file.string()}});
  EXPECT_EQ(right.code, 0) << right.err;
  std::filesystem::remove(file);
}

TEST(PostgresFailures, MissingSchemaSaysMigrate) {
  ScratchDatabase database;
  const CommandResult result = RunSealane(EmitTo(database.url()));
  ExpectError(result, ExitCode::kSchemaMissing, "schema_missing");
  EXPECT_THAT(result.err, HasSubstr("sealane migrate up"));
}

TEST(PostgresFailures, NewerSchemaIsLeftAlone) {
  ScratchDatabase database;
  Migrate(database.url());
  PgSession session(database.url());
  session.Exec("INSERT INTO sealane.migration (number, name, checksum) VALUES (9999, 'future', 'x')");
  ExpectError(RunSealane(EmitTo(database.url())), ExitCode::kSchemaMismatch, "schema_newer");
  ExpectError(RunSealane({"migrate", "up", "--store", database.url(), "-o", "json"}), ExitCode::kSchemaMismatch,
              "schema_newer");
  EXPECT_EQ(session.Count("sealane.outbox"), 0);
}

TEST(PostgresFailures, NoRightToAppendIsNamed) {
  ScratchDatabase database;
  Migrate(database.url());
  PgSession session(database.url());
  const std::string user = database.name() + "_nobody";
  session.Exec(fmt::format("CREATE ROLE {0} LOGIN; GRANT sealane_operator TO {0}", user));
  ExpectError(RunSealane(EmitTo(database.UrlAs(user))), ExitCode::kNotPermitted, "not_permitted");
  session.Exec(fmt::format("DROP ROLE {}", user));
}

TEST(PostgresFailures, ReadOnlyDatabaseIsNamed) {
  ScratchDatabase database;
  Migrate(database.url());
  PgSession session(database.url());
  session.Exec(fmt::format("ALTER DATABASE {} SET default_transaction_read_only = on", database.name()));
  ExpectError(RunSealane(EmitTo(database.url())), ExitCode::kStoreReadOnly, "store_read_only");
  EXPECT_EQ(session.Count("sealane.outbox"), 0);
}

TEST(PostgresFailures, ServerGoneMidAppendWritesNothing) {
  ScratchDatabase database;
  Migrate(database.url());
  PgSession session(database.url());
  // Holds the append in the middle of its statement.
  session.Exec("BEGIN; LOCK TABLE sealane.outbox IN ACCESS EXCLUSIVE MODE");
  CommandResult result;
  std::thread command([&] { result = RunSealane(EmitTo(database.url())); });
  PgSession admin(database.url());
  while (admin.Count("pg_locks WHERE NOT granted AND relation = 'sealane.outbox'::regclass") == 0) {
    std::this_thread::yield();
  }
  admin.Exec("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted");
  command.join();
  session.Exec("COMMIT");
  ExpectError(result, ExitCode::kConnectionLost, "connection_lost");
  EXPECT_EQ(session.Count("sealane.outbox"), 0);
}

TEST(PostgresFailures, SlowStatementTimesOut) {
  ScratchDatabase database;
  Migrate(database.url());
  PgSession session(database.url());
  session.Exec("BEGIN; LOCK TABLE sealane.outbox IN ACCESS EXCLUSIVE MODE");
  std::vector<std::string> command = EmitTo(database.url());
  command.insert(command.end(), {"--timeout", "200ms"});
  ExpectError(RunSealane(command), ExitCode::kTimedOut, "statement_timeout");
  session.Exec("ROLLBACK");
}

// A real full disk: a tablespace on a small file system of its own. Only root can mount one.
TEST(PostgresFailures, FullDiskIsNamedAndWritesNothing) {
  PgSession admin(testing::ClusterUrl());
  if (geteuid() != 0) GTEST_SKIP() << "mounting a small file system needs root";
  const std::filesystem::path data = admin.Exec("SHOW data_directory");
  const std::string name = fmt::format("small_{}", getpid());
  const std::filesystem::path disk = data.parent_path() / fmt::format("{}-{}", data.filename().string(), name);
  std::filesystem::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=24m,mode=0700") != 0) {
    std::filesystem::remove(disk);
    GTEST_SKIP() << "this machine does not let root mount a file system";
  }
  struct stat owner {};
  ASSERT_EQ(stat(data.c_str(), &owner), 0);
  ASSERT_EQ(chown(disk.c_str(), owner.st_uid, owner.st_gid), 0);
  admin.Exec(fmt::format("CREATE TABLESPACE {} LOCATION '{}'", name, disk.string()));
  admin.Exec(fmt::format("CREATE DATABASE {0} TABLESPACE {0}", name));
  std::string url = testing::ClusterUrl();
  url.replace(url.rfind('/') + 1, std::string::npos, name);
  {
    Migrate(url);
    PgSession session(url);
    int committed = 0;
    CommandResult result;
    // Bytes that do not compress, so that the disk really fills.
    while (true) {
      const std::string payload =
          session.Exec("SELECT '\"' || string_agg(md5(random()::text), '') || '\"' FROM generate_series(1, 25000)");
      result = RunSealane(EmitTo(url, "-"), payload);
      if (result.code != 0) break;
      ASSERT_LT(++committed, 100) << "the disk never filled up";
    }
    ExpectError(result, ExitCode::kStoreFull, "store_full");
    EXPECT_GT(committed, 0);
    EXPECT_EQ(session.Count("sealane.outbox"), committed);
  }
  admin.Exec(fmt::format("DROP DATABASE {} WITH (FORCE)", name));
  admin.Exec(fmt::format("DROP TABLESPACE {}", name));
  EXPECT_EQ(umount(disk.c_str()), 0);
  std::filesystem::remove(disk);
}

}  // namespace
}  // namespace sealane
