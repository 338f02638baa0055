// Protects `sealane dashboard` as people start it: over both stores and with no more than an operator's rights, with
// a store that goes away, and with everything on the command line that can be wrong.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/running_program.hpp"
#include "support/running_relay.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

/// A document behind the page; null when there is none.
json Ask(const RunningProgram& dashboard, const std::string& target) {
  const std::string answer = HttpGet(dashboard.PortAfter("dashboard: http://127.0.0.1:"), target);
  const std::size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? json() : json::parse(answer.substr(body + 4), nullptr, false);
}

class DashboardProgram : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgres") database_ = std::make_unique<ScratchDatabase>();
    Sealane({"migrate", "up"});
  }
  void TearDown() override {
    if (!operator_.empty()) {
      PgSession(database_->url()).Exec(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", operator_));
    }
  }

  std::string url() const { return database_ ? database_->url() : "sqlite:" + file_.path(); }
  /// On PostgreSQL that of somebody who may do what operators may, and nothing else.
  std::string OperatorUrl() {
    if (!database_) return url();
    operator_ = database_->name() + "_watcher";
    PgSession(url()).Exec(
        fmt::format("CREATE ROLE {0} LOGIN; GRANT sealane_{1}_operator TO {0}", operator_, database_->name()));
    return database_->UrlAs(operator_);
  }
  void Sealane(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--store", url()});
    const CommandResult result = RunSealane(arguments);
    ASSERT_EQ(result.code, 0) << result.err;
  }
  void Emit(const std::string& key) const {
    Sealane({"emit", "--topic", "orders", "--key", key, "--type", "OrderPlaced", "--payload", R"({"card":"4111"})"});
  }
  RunningProgram Start(const std::string& store) const {
    return {"dashboard",
            {SEALANE_TEST_BINARY, "dashboard", "--store", store, "--listen", "127.0.0.1:0"},
            {},
            file_.folder()};
  }

  std::unique_ptr<ScratchDatabase> database_;
  std::string operator_;
  SqliteFile file_;
};

INSTANTIATE_TEST_SUITE_P(Store, DashboardProgram, ::testing::Values("sqlite", "postgres"),
                         [](const auto& test) { return test.param; });

TEST_P(DashboardProgram, ShowsAnOperatorWhatIsThereAndNoPayload) {
  Emit("o-1");
  Emit("o-2");
  const RunningProgram dashboard = Start(OperatorUrl());
  ASSERT_TRUE(Eventually([&] { return Ask(dashboard, "/api/v1/overview").contains("routes"); })) << dashboard.said();
  json overview = Ask(dashboard, "/api/v1/overview");
  EXPECT_FALSE(overview.contains("problem")) << overview;
  EXPECT_FALSE(overview.contains("consumers_problem")) << overview;
  EXPECT_TRUE(overview.contains("tasks")) << overview;
  EXPECT_EQ(overview["routes"][0]["pending"], 2);
  EXPECT_THAT(overview["health"]["sentence"].get<std::string>(), HasSubstr("No relay runs on route main."));

  const json messages = Ask(dashboard, "/api/v1/messages?key=o-2");
  ASSERT_EQ(messages["messages"].size(), 1U) << messages;
  const std::string id = messages["messages"][0]["id"];
  const json one = Ask(dashboard, "/api/v1/messages/" + id);
  EXPECT_EQ(one["message"]["key"], "o-2") << one;
  EXPECT_THAT(one.dump() + messages.dump() + overview.dump(), Not(HasSubstr("4111")));
  for (const char* const target : {"/api/v1/aside", "/api/v1/receipts", "/api/v1/tasks", "/api/v1/audit"}) {
    EXPECT_FALSE(Ask(dashboard, target).contains("error")) << target << Ask(dashboard, target);
  }

  // Somebody ships them.
  Sealane({"relay", "--broker", "null:", "--until", "drained"});
  EXPECT_TRUE(Eventually([&] { return Ask(dashboard, "/api/v1/overview")["routes"][0]["pending"] == 0; }));
  EXPECT_EQ(Ask(dashboard, "/api/v1/messages/" + id)["message"]["status"], "PUBLISHED");
  EXPECT_EQ(dashboard.Stop(), 0) << dashboard.said();
}

TEST_P(DashboardProgram, SaysThatTheStoreWentAwayAndThatItIsBack) {
  const RunningProgram dashboard = Start(url());
  ASSERT_TRUE(Eventually([&] { return Ask(dashboard, "/api/v1/overview").contains("routes"); })) << dashboard.said();
  const auto rename = [&](const std::string& from, const std::string& to) {
    if (database_) {
      PgSession(url()).Exec(fmt::format("ALTER SCHEMA {} RENAME TO {}", from, to));
    } else {
      SqliteHandle(file_.path()).Execute(fmt::format("ALTER TABLE sealane_{} RENAME TO sealane_{}", from, to));
    }
  };
  const std::string there = database_ ? "sealane" : "tenant_rule";
  rename(there, "hidden");
  EXPECT_TRUE(Eventually([&] { return Ask(dashboard, "/api/v1/overview").contains("problem"); }));
  EXPECT_EQ(Ask(dashboard, "/api/v1/overview")["health"]["level"], "wrong");
  EXPECT_TRUE(Ask(dashboard, "/api/v1/overview").contains("routes")) << "what was seen before";
  rename("hidden", there);
  EXPECT_TRUE(Eventually([&] { return !Ask(dashboard, "/api/v1/overview").contains("problem"); }));
  EXPECT_EQ(dashboard.Stop(), 0);
}

TEST(DashboardCommandLine, SaysWhatIsWrong) {
  SqliteFile file;
  file.Migrate();
  const std::string store = "sqlite:" + file.path();
  CommandResult result = RunSealane({"dashboard", "--store", store, "--listen", "0.0.0.0:8377"});
  EXPECT_EQ(result.code, 78);
  EXPECT_THAT(result.err, HasSubstr("knows no users yet"));
  EXPECT_THAT(result.err, HasSubstr("ssh -L"));
  result = RunSealane({"dashboard", "--store", store, "--listen", "nonsense", "-o", "json"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(json::parse(result.err)["error"]["code"], "bad_usage");
  result = RunSealane({"dashboard", "--store", "sqlite:" + file.folder() + "/nothing.db"});
  EXPECT_EQ(result.code, 18) << result.err;
  result = RunSealane({"dashboard", "--store", "postgres://nobody@127.0.0.1:1/x", "--timeout", "2s"});
  EXPECT_EQ(result.code, 10) << result.err;

  const RunningProgram first("dashboard",
                             {SEALANE_TEST_BINARY, "dashboard", "--store", store, "--listen", "127.0.0.1:0"}, {},
                             file.folder());
  const int port = first.PortAfter("dashboard: http://127.0.0.1:");
  result = RunSealane({"dashboard", "--store", store, "--listen", fmt::format("127.0.0.1:{}", port)});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("something else listens on"));
  EXPECT_THAT(result.err, HasSubstr("--listen"));
  EXPECT_EQ(first.Stop(), 0);
}

}  // namespace
}  // namespace sealane::testing
