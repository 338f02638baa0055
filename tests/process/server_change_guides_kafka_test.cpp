// Protects docs/operate/failover.md and docs/operate/upgrade.md: their commands are run as they stand there, with
// relays and consumers up, and what survives is counted.

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"
#include "support/server_change.hpp"

namespace sealane::testing {
namespace {

using std::chrono::seconds;

class ServerChangeGuides : public ::testing::Test {
 protected:
  void SetUp() override { SEALANE_REQUIRE_KAFKA(); }
};

/// The block of commands below `<!-- run by a test: NAME -->`.
std::string CommandsOf(const std::string& guide, const std::string& name) {
  std::ifstream file(fmt::format("{}/docs/operate/{}", SEALANE_TEST_SOURCE_DIR, guide));
  std::string commands;
  bool marked = false;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    const std::string text = line.substr(std::min(line.size(), line.find_first_not_of(' ')));
    if (text == fmt::format("<!-- run by a test: {} -->", name)) {
      marked = true;
    } else if (marked && text.starts_with("```")) {
      if (inside) return commands;
      inside = true;
    } else if (inside) {
      commands += text + "\n";
    }
  }
  ADD_FAILURE() << guide << " has no commands named " << name;
  return {};
}

/// Runs them in a shell that has `sealane` and the tools of PostgreSQL.
void RunGuide(const std::string& guide, const std::string& name, const std::map<std::string, std::string>& variables,
              const std::map<std::string, std::string>& names = {}) {
  std::string commands = CommandsOf(guide, name);
  for (const auto& [shown, real] : names) {
    const std::size_t at = commands.find(shown);
    ASSERT_NE(at, std::string::npos) << shown;
    commands.replace(at, shown.size(), real);
  }
  const std::string folder = std::filesystem::path(SEALANE_TEST_BINARY).parent_path();
  ChildProcess shell({"/bin/bash", "-euo", "pipefail", "-c", fmt::format("PATH='{}':$PATH\n{}", folder, commands)},
                     variables, "/");
  const CommandResult result = shell.Finish();
  EXPECT_EQ(result.code, 0) << guide << ", " << name << ":\n" << commands << result.out << result.err;
}

TEST_F(ServerChangeGuides, TheStepsOfAFailoverWork) {
  ServerChangeRun run(1, {.outbox_changes = true});
  auto standby = ChangingPostgres::StandbyOf(run.server());
  run.StartAll(1);
  run.load().Resume();
  ASSERT_TRUE(run.load().AwaitMore(60));
  run.server().Crash();
  RunGuide("failover.md", "promote", {{"STANDBY", standby->Url()}});
  run.ReplaceServer(std::move(standby));
  RunGuide("failover.md", "look", {{"STORE", run.OutboxUrl()}});
  ASSERT_TRUE(run.load().AwaitMore(60));
  run.load().Pause();
  ASSERT_EQ(run.Verdict(), "");
  run.ExpectCalm();
}

TEST_F(ServerChangeGuides, TheStepsOfPgUpgradeWork) {
  ServerChangeRun run(1, {.outbox_changes = true});
  run.StartAll(1);
  run.load().Resume();
  ASSERT_TRUE(run.load().AwaitMore(60));
  run.TakeAway();
  run.ReplaceServer(ChangingPostgres::Upgrade(run.server()));
  ASSERT_TRUE(run.load().AwaitMore(20));
  ASSERT_TRUE(Eventually([&] { return run.Readiness(run.relay(0)).first == 503; }, seconds{20}));
  ASSERT_EQ(run.Lie(), "");
  RunGuide("upgrade.md", "rebase", {{"STORE", run.OutboxUrl()}});
  ASSERT_TRUE(run.load().AwaitMore(60));
  run.load().Pause();
  ASSERT_EQ(run.Verdict(), "");
  run.ExpectCalm();
}

TEST_F(ServerChangeGuides, TheStepsOfBlueGreenWork) {
  ServerChangeRun run(1, {.outbox_changes = true});
  auto other = ChangingPostgres::Start();
  PgSession(other->Url()).Exec("CREATE DATABASE shop");
  const std::map<std::string, std::string> both = {{"OLD", run.server().Url("shop")}, {"NEW", other->Url("shop")}};
  run.StartAll(1);
  run.load().Resume();
  ASSERT_TRUE(run.load().AwaitMore(30));
  RunGuide("upgrade.md", "follow", both, {{"orders, order_lines", "counter, business"}});
  ASSERT_TRUE(run.load().AwaitMore(30));
  run.load().Pause();
  ASSERT_TRUE(Eventually([&] { return run.AllPublished(); })) << run.Logs();
  RunGuide("upgrade.md", "wait", both);
  RunGuide("upgrade.md", "carry over", both);
  run.ReplaceServer(std::move(other));
  RunGuide("upgrade.md", "rebase", {{"STORE", run.OutboxUrl()}});
  run.load().WriteMore(60);
  ASSERT_EQ(run.Verdict(), "");
  run.ExpectCalm();
}

}  // namespace
}  // namespace sealane::testing
