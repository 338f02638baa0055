// Protects scripts: every documented exit code that can be provoked here is reached, every failure is a JSON object
// when JSON was asked for, and no secret shows in any output.

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/child_process.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using nlohmann::json;
using testing::CommandResult;
using ::testing::HasSubstr;
using testing::RunSealane;
using testing::ScratchDatabase;
using testing::SqliteFile;
using testing::SqliteHandle;

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

Words With(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The code of the JSON error, after checking its shape and the exit code.
std::string ExpectFailure(const Words& words, int code, const Variables& variables = {}) {
  const CommandResult result = RunSealane(With(words, {"-o", "json"}), {}, variables);
  std::string shown;
  for (const std::string& word : words) shown += word + " ";
  EXPECT_EQ(result.code, code) << shown << result.err;
  EXPECT_EQ(result.out, "") << shown;
  if (!json::accept(result.err)) {
    ADD_FAILURE() << shown << "wrote no JSON but: " << result.err;
    return {};
  }
  const json error = json::parse(result.err).value("error", json());
  for (const char* member : {"code", "kind", "message", "hint", "field", "details"}) {
    EXPECT_TRUE(error.contains(member)) << shown << result.err;
  }
  EXPECT_FALSE(error["message"].get<std::string>().empty());

  const CommandResult plain = RunSealane(words, {}, variables);
  EXPECT_EQ(plain.code, code) << shown;
  EXPECT_TRUE(plain.err.starts_with("sealane: ")) << shown << plain.err;
  return error["code"];
}

const Words kEmit = {"emit", "--topic", "t", "--key", "k", "--type", "T", "--payload", "1"};

TEST(JsonErrors, ParseForEveryBadCommandLine) {
  const Words lines[] = {
      {},
      {"nonsense"},
      {"--nonsense"},
      {"-x"},
      {"emit"},
      {"emit", "extra"},
      {"emit", "--topic"},
      {"emit", "--topic", "t", "--topic", "u"},
      {"emit", "--nonsense"},
      {"emit", "--", "x"},
      With(kEmit, {"--id", "x"}),
      With(kEmit, {"--kind", "x"}),
      With(kEmit, {"--header", "x"}),
      With(kEmit, {"--aggregate-version", "x"}),
      With(kEmit, {"--occurred-at", "x"}),
      With(kEmit, {"--timeout", "5"}),
      With(kEmit, {"--schema", "Bad;Name"}),
      With(kEmit, {"--store", "nowhere"}),
      With(kEmit, {"--log-level", "loud"}),
      With(kEmit, {"--color", "pink"}),
      With(kEmit, {"\xff\xfe"}),
      {"emit", "--jsonl", "/nowhere"},
      {"emit", "--jsonl", "-", "--key", "k"},
      {"messages"},
      {"messages", "nonsense"},
      {"messages", "get"},
      {"messages", "get", "x"},
      {"messages", "get", "x", "y"},
      {"messages", "list", "--limit", "0"},
      {"messages", "list", "--status", "x"},
      {"messages", "list", "--since", "x"},
      {"messages", "list", "x"},
      {"migrate"},
      {"migrate", "down"},
      {"migrate", "up", "--force"},
      {"config"},
      {"config", "print", "--orign"},
      {"version", "x"},
      {"help", "nonsense"},
  };
  for (const Words& words : lines) EXPECT_EQ(ExpectFailure(words, 2), "bad_usage");
}

TEST(ExitCode, TellsConfigurationMistakes) {
  EXPECT_EQ(ExpectFailure({"messages", "list"}, 78), "store_not_set");
  EXPECT_EQ(ExpectFailure(With(kEmit, {"--config", "/nowhere.toml"}), 78), "bad_configuration");
  EXPECT_EQ(ExpectFailure({"config", "check"}, 78, {{"SEALANE_STORE_URL", "x.db"}}), "bad_configuration");
  EXPECT_EQ(ExpectFailure({"config", "print"}, 78, {{"SEALANE_LOG__LEVEL", "x"}, {"SEALANE_X__Y", "1"}}),
            "bad_configuration");
  EXPECT_EQ(ExpectFailure({"migrate", "status"}, 78, {{"SEALANE_STORE__PASSWORD_FILE", "/nowhere"}}),
            "bad_configuration");
}

class SqliteFailuresTest : public ::testing::Test {
 protected:
  Words On(Words words) const { return With(std::move(words), {"--store", "sqlite:" + file_.path()}); }

  SqliteFile file_;
};

TEST_F(SqliteFailuresTest, MissingFile) {
  EXPECT_EQ(ExpectFailure(On({"messages", "list"}), 18), "database_missing");
  EXPECT_EQ(ExpectFailure(On(kEmit), 18), "database_missing");
  EXPECT_FALSE(std::filesystem::exists(file_.path())) << "asking made the file";
}

TEST_F(SqliteFailuresTest, MissingTables) {
  SqliteHandle(file_.path()).Execute("CREATE TABLE business (id INTEGER)");
  EXPECT_EQ(ExpectFailure(On({"messages", "list"}), 17), "schema_missing");
  EXPECT_EQ(ExpectFailure(On(kEmit), 17), "schema_missing");
}

TEST_F(SqliteFailuresTest, UnreachableFile) {
  ExpectFailure({"migrate", "up", "--store", "sqlite:/nowhere/at/all.db"}, 10);
}

TEST_F(SqliteFailuresTest, NotFound) {
  file_.Migrate();
  EXPECT_EQ(ExpectFailure(On({"messages", "get", "018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f"}), 4), "not_found");
}

TEST_F(SqliteFailuresTest, RefusedEvents) {
  file_.Migrate();
  EXPECT_EQ(ExpectFailure(On({"emit", "--topic", "t", "--key", "", "--type", "T", "--payload", "1"}), 65).empty(),
            false);
  EXPECT_EQ(ExpectFailure(On({"emit", "--topic", "a b", "--key", "k", "--type", "T", "--payload", "1"}), 65).empty(),
            false);
  EXPECT_EQ(ExpectFailure(On({"emit", "--topic", "t", "--key", "k", "--type", "T", "--payload", "{"}), 65).empty(),
            false);
  const std::string large = file_.folder() + "/large";
  std::ofstream(large) << '"' << std::string(1 << 20, 'x') << '"';
  EXPECT_EQ(ExpectFailure(On({"emit", "--topic", "t", "--key", "k", "--type", "T", "--payload", "@" + large}), 65),
            "payload_too_large");
}

TEST_F(SqliteFailuresTest, SomebodyElseIsWriting) {
  file_.Migrate();
  const SqliteHandle writer(file_.path());
  writer.Execute("BEGIN IMMEDIATE");
  EXPECT_EQ(ExpectFailure(On(With(kEmit, {"--timeout", "20ms"})), 7), "store_busy");
  writer.Execute("ROLLBACK");
}

TEST_F(SqliteFailuresTest, NewerTables) {
  file_.Migrate();
  {
    const SqliteHandle handle(file_.path());
    handle.Execute(
        "INSERT INTO sealane_migration SELECT 9999, 'from_the_future', checksum, applied_at FROM sealane_migration "
        "LIMIT 1");
  }
  EXPECT_EQ(ExpectFailure(On(kEmit), 12), "schema_newer");
  EXPECT_EQ(ExpectFailure(On({"migrate", "up"}), 12), "schema_newer");
  EXPECT_EQ(ExpectFailure(On({"migrate", "plan"}), 12), "schema_newer");
  const CommandResult status = RunSealane(On({"migrate", "status", "-o", "json"}));
  EXPECT_EQ(status.code, 12);
  EXPECT_EQ(json::parse(status.out)["state"], "newer");
}

TEST_F(SqliteFailuresTest, WriteThatFailsHalfWay) {
  file_.Migrate();
  const std::string payload = file_.folder() + "/payload";
  std::ofstream(payload) << '"' << std::string(800'000, 'x') << '"';
  // A file size limit stands for a disk with a fault: the write fails in the middle, and nothing of it stays.
  const std::string command = "trap '' XFSZ; ulimit -f 300; exec " SEALANE_TEST_BINARY
                              " emit --topic t --key k --type T -o json --payload @" +
                              payload + " --store sqlite:" + file_.path();
  const CommandResult result = testing::ChildProcess({"/bin/sh", "-c", command}, {}, "/").Finish();
  EXPECT_EQ(result.code, 10) << result.err;
  EXPECT_EQ(json::parse(result.err)["error"]["code"], "store_io_error");
  EXPECT_EQ(json::parse(RunSealane(On({"messages", "list", "-o", "json"})).out)["messages"].size(), 0U);
}

TEST_F(SqliteFailuresTest, ReadOnlyFile) {
  file_.Migrate();
  const char* const path = file_.path().c_str();
  ASSERT_EQ(::chmod(path, 0444), 0);
  // Root may write whatever the mode says, but not through a read-only mount.
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::mount(path, path, nullptr, MS_BIND, nullptr), 0);
    ASSERT_EQ(::mount(nullptr, path, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
  }
  EXPECT_EQ(ExpectFailure(On(kEmit), 14), "store_read_only");
  if (root) {
    EXPECT_EQ(::umount2(path, MNT_DETACH), 0);
  }
}

TEST_F(SqliteFailuresTest, DamagedFile) {
  std::ofstream(file_.path()) << "this is no database at all, but long enough to be looked at as one by the library";
  ExpectFailure(On({"messages", "list"}), 1);
}

TEST(PostgresFailures, WrongServerPortDatabaseAndUser) {
  EXPECT_EQ(ExpectFailure({"messages", "list", "--store", "postgres://u@127.0.0.1:1/d", "--timeout", "2s"}, 10),
            "store_unreachable");
  EXPECT_EQ(
      ExpectFailure({"messages", "list", "--store", "postgres://u@no-such-host.invalid/d", "--timeout", "2s"}, 10),
      "store_unreachable");
  const ScratchDatabase database;
  std::string missing = database.url();
  missing.replace(missing.rfind('/') + 1, std::string::npos, "no_such_database");
  EXPECT_EQ(ExpectFailure({"messages", "list", "--store", missing}, 18), "database_missing");
  EXPECT_EQ(ExpectFailure({"messages", "list", "--store", database.UrlAs("no_such_user")}, 13), "login_refused");
  EXPECT_EQ(ExpectFailure({"messages", "list", "--store", database.url()}, 17), "schema_missing");
}

TEST(PostgresFailures, ReadOnlyDatabaseAndMissingRights) {
  const ScratchDatabase database;
  const Words store = {"--store", database.url()};
  ASSERT_EQ(RunSealane(With({"migrate", "up"}, store)).code, 0);
  testing::PgSession admin(database.url());
  admin.Exec("ALTER DATABASE " + database.name() + " SET default_transaction_read_only = on");
  EXPECT_EQ(ExpectFailure(With(kEmit, store), 14), "store_read_only");
  admin.Exec("ALTER DATABASE " + database.name() + " RESET default_transaction_read_only");
  admin.Exec("CREATE ROLE stranger_" + database.name() + " LOGIN");
  const Words stranger = {"--store", database.UrlAs("stranger_" + database.name())};
  EXPECT_EQ(ExpectFailure(With(kEmit, stranger), 6), "not_permitted");
  admin.Exec("DROP ROLE stranger_" + database.name());
}

TEST(Secrets, AppearInNoOutput) {
  const SqliteFile file;
  const std::string canary = "canary-8b1f";
  const std::string secret = file.folder() + "/secret";
  std::ofstream(secret) << canary << "\n";
  const std::string toml = file.folder() + "/sealane.toml";
  const std::string urls[] = {
      "postgres://app:" + canary + "@127.0.0.1:1/shop",
      "postgres://app@127.0.0.1:1/shop?password=" + canary,
      "postgres://app:${file:" + secret + "}@127.0.0.1:1/shop",
      "postgres://app:" + canary + "@127.0.0.1:1:2:3/shop?nonsense=1",
      "mysql://app:" + canary + "@127.0.0.1/shop",
  };
  const Words commands[] = {{"config", "print", "--origin"}, {"config", "check"},     {"messages", "list"},
                            {"migrate", "status"},           {"migrate", "up"},       kEmit,
                            With(kEmit, {"--nonsense"}),     {"messages", "get", "x"}};
  for (const std::string& url : urls) {
    std::ofstream(toml) << "[store]\nurl = \"" << url << "\"\nconnect_timeout = \"1s\"\n";
    for (const Words& words : commands) {
      for (const Words& format : {Words{"-o", "json"}, Words{"--log-level", "debug"}}) {
        const std::pair<Words, Variables> ways[] = {
            {{"--store", url, "--timeout", "1s"}, {}},
            {{"--config", toml}, {}},
            {{"--timeout", "1s"}, {{"SEALANE_STORE__URL", url}, {"SEALANE_STORE__PASSWORD_FILE", secret}}},
        };
        for (const auto& [more, variables] : ways) {
          const CommandResult result = RunSealane(With(With(words, format), more), {}, variables);
          EXPECT_EQ((result.out + result.err).find(canary), std::string::npos)
              << url << " " << words[0] << ": " << result.out << result.err;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sealane
