// `sealane inbox grant`, `revoke` and `grants`, as a login with the operator role of one database.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/child_process.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::PgSession;
using testing::RunSealane;
using testing::ScratchDatabase;

nlohmann::json Json(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, false);
}

TEST(InboxGrants, AreGivenListedAndTakenBackWithARecord) {
  const ScratchDatabase database;
  ASSERT_EQ(RunSealane({"migrate", "up", "--store", database.url()}).code, 0);
  PgSession admin(database.url());
  const std::string user = database.name() + "_ann";
  admin.Exec(fmt::format("CREATE ROLE {0} LOGIN; GRANT sealane_{1}_operator TO {0}", user, database.name()));
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--store", database.UrlAs(user)});
    return RunSealane(arguments);
  };

  const CommandResult granted =
      run({"inbox", "grant", "--consumer", "billing", "--role", user, "--reason", "new", "--actor", "Ann"});
  EXPECT_EQ(granted.code, 0) << granted.err;
  EXPECT_EQ(granted.out, user + " may now work as consumer billing\n");
  const CommandResult again =
      run({"inbox", "grant", "--consumer", "billing", "--role", user, "--reason", "new", "-o", "json"});
  EXPECT_EQ(Json(again.out)["changed"], 0);
  const auto listed = Json(run({"inbox", "grants", "-o", "json"}).out);
  ASSERT_EQ(listed["grants"].size(), 1U);
  EXPECT_EQ(listed["grants"][0]["role"], user);
  EXPECT_THAT(run({"inbox", "grants", "--consumer", "billing"}).out, HasSubstr(user));
  EXPECT_EQ(admin.Exec("SELECT concat_ws(' ', actor, action, login) FROM sealane.audit ORDER BY id DESC LIMIT 1"),
            "Ann consumer.grant " + user);

  const CommandResult unknown =
      run({"inbox", "grant", "--consumer", "billing", "--role", "nosuch", "--reason", "x", "-o", "json"});
  EXPECT_EQ(unknown.code, 65);
  EXPECT_EQ(Json(unknown.err)["error"]["code"], "unknown_role");

  const CommandResult revoked = run({"inbox", "revoke", "--consumer", "billing", "--role", user, "--reason", "old"});
  EXPECT_EQ(revoked.out, user + " may no longer work as consumer billing\n");
  EXPECT_TRUE(Json(run({"inbox", "grants", "-o", "json"}).out)["grants"].empty());
  admin.Exec(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", user));
}

TEST(InboxGrants, AreRefusedForAStoreWithoutRoles) {
  const testing::SqliteFile file;
  const CommandResult refused = RunSealane({"inbox", "grant", "--consumer", "billing", "--role", "x", "--reason", "y",
                                            "-o", "json", "--store", "sqlite:" + file.path()});
  EXPECT_EQ(refused.code, 65);
  EXPECT_EQ(Json(refused.err)["error"]["code"], "no_consumer_grants");
}

}  // namespace
}  // namespace sealane
