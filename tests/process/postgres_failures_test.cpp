// Each way a PostgreSQL can fail an operator: its own clear message, its own exit code, and nothing half-written.

#include <cstdlib>
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

TEST(PostgresFailures, AMalformedUrlDoesNotShowItsPassword) {
  for (const std::string url : {"postgres://u:canary-secret@[::1/db", "postgres://u:canary-secret%zz@127.0.0.1/db",
                                "postgres://u:canary-secret@127.0.0.1:1/db?nonsense=1"}) {
    const CommandResult result = RunSealane(EmitTo(url));
    ExpectError(result, ExitCode::kBadConfiguration, "invalid_store_url");
    EXPECT_THAT(result.err, Not(HasSubstr("canary-secret"))) << url;
  }
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
  // Other tests share the server, and their sessions wait for locks too.
  const std::string waiting = "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
  while (admin.Count(waiting) == 0) std::this_thread::yield();
  admin.Exec("SELECT pg_terminate_backend(pid) FROM " + waiting);
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

/// A server of its own: one whose disk is full cannot finish checkpoints, and that would fail other tests.
class OwnServer {
 public:
  OwnServer() {
    Script("start");
    std::ifstream file(kDirectory + ".url");
    std::getline(file, url_);
  }
  ~OwnServer() { Script("remove"); }
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;
  const std::string& url() const { return url_; }
  std::string UrlOf(const std::string& database) const {
    std::string url = url_;
    return url.replace(url.rfind('/') + 1, std::string::npos, database);
  }

 private:
  static void Script(const std::string& verb) {
    const std::string command =
        fmt::format("{}/scripts/test_postgres {} {} >/dev/null", SEALANE_TEST_SOURCE_DIR, verb, kDirectory);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }
  static inline const std::string kDirectory = SEALANE_TEST_BUILD_DIR "/test-postgres-full-disk";
  std::string url_;
};

/// A small file system that the server's user can write to; gone at the end.
class SmallDisk {
 public:
  explicit SmallDisk(const std::filesystem::path& server_data)
      : path_(std::filesystem::temp_directory_path() / fmt::format("sealane-small-disk-{}", getpid())) {
    std::filesystem::create_directory(path_);
    mounted_ = mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=24m,mode=0700") == 0;
    struct stat owner {};
    if (mounted_ && stat(server_data.c_str(), &owner) == 0) {
      EXPECT_EQ(chown(path_.c_str(), owner.st_uid, owner.st_gid), 0);
    }
  }
  ~SmallDisk() {
    if (mounted_) {
      EXPECT_EQ(umount2(path_.c_str(), MNT_DETACH), 0);
    }
    std::filesystem::remove(path_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

// A real full disk: a tablespace on a small file system. Only root can mount one.
TEST(PostgresFailures, FullDiskIsNamedAndWritesNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "mounting a small file system needs root";
  const OwnServer server;
  PgSession admin(server.url());
  const SmallDisk disk(admin.Exec("SHOW data_directory"));
  if (!disk.mounted()) GTEST_SKIP() << "this machine does not let root mount a file system";
  admin.Exec(fmt::format("CREATE TABLESPACE small LOCATION '{}'", disk.path().string()));
  admin.Exec("CREATE DATABASE small TABLESPACE small");
  const std::string url = server.UrlOf("small");
  Migrate(url);
  PgSession session(url);
  int committed = 0;
  CommandResult result;
  while (true) {
    // Bytes that do not compress, so that the disk really fills.
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

}  // namespace
}  // namespace sealane
