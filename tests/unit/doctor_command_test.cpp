// Protects the doctor's judgement: which facts are fine, which will hurt, which are wrong, and that each finding that
// is not fine says what to do.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "doctor/judgement.hpp"
#include "support/command_run.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::cli {
namespace {

using nlohmann::json;
using sealane::testing::CommandResult;
using sealane::testing::CommandRunner;
using ::testing::HasSubstr;
using ::testing::Not;
using Level = Finding::Level;

postgres::DoctorFacts Healthy() {
  postgres::DoctorFacts facts;
  facts.server_version = "15.1";
  facts.user = "relay";
  facts.schema = "sealane";
  facts.days_ahead = 14;
  facts.idle_timeout = std::chrono::minutes{5};
  return facts;
}

/// The findings that are not fine; each must say what to do.
std::vector<Finding> Problems(const std::vector<Finding>& findings) {
  std::vector<Finding> problems;
  for (const Finding& finding : findings) {
    if (finding.level == Level::kGood) continue;
    EXPECT_FALSE(finding.next.empty()) << finding.code;
    EXPECT_FALSE(finding.symptom.empty()) << finding.code;
    EXPECT_FALSE(finding.evidence.empty()) << finding.code;
    problems.push_back(finding);
  }
  return problems;
}

struct Illness {
  const char* code;
  Level level;
  void (*infect)(postgres::DoctorFacts&);
};

TEST(JudgePostgres, NamesEveryIllness) {
  EXPECT_TRUE(Problems(JudgePostgres("store a", Healthy())).empty());
  const Illness illnesses[] = {
      {"store_read_only", Level::kWrong, [](auto& facts) { facts.in_recovery = true; }},
      {"fsync_off", Level::kWrong, [](auto& facts) { facts.fsync = false; }},
      {"clock_difference", Level::kNotice, [](auto& facts) { facts.clock_difference = std::chrono::seconds{-5}; }},
      {"clock_difference", Level::kNotice, [](auto& facts) { facts.clock_difference = std::chrono::seconds{5}; }},
      {"sequence_cached", Level::kWrong, [](auto& facts) { facts.sequence_cache = 32; }},
      {"seq_default_changed", Level::kWrong, [](auto& facts) { facts.xid_before_seq = false; }},
      {"partitions_run_out", Level::kNotice, [](auto& facts) { facts.days_ahead = 1; }},
      {"partitions_run_out", Level::kWrong, [](auto& facts) { facts.days_ahead = 0; }},
      {"default_partition_used", Level::kNotice, [](auto& facts) { facts.default_partition_used = true; }},
      {"rights_missing", Level::kWrong, [](auto& facts) { facts.missing_rights = {"insert on parked"}; }},
      {"long_transactions", Level::kNotice, [](auto& facts) { facts.long_transactions = 2; }},
      {"prepared_transactions", Level::kNotice, [](auto& facts) { facts.prepared_transactions = 1; }},
      {"server_too_old", Level::kWrong, [](auto& facts) { facts.server_number = 120'022; }},
      {"commits_not_synchronous", Level::kNotice, [](auto& facts) { facts.synchronous_commit = false; }},
      {"autovacuum_off", Level::kNotice, [](auto& facts) { facts.autovacuum = false; }},
      {"idle_without_limit", Level::kNotice, [](auto& facts) { facts.idle_timeout = std::chrono::seconds{0}; }},
      {"connections_run_out", Level::kNotice,
       [](auto& facts) {
         facts.connections = 91;
         facts.connections_max = 100;
       }},
      {"too_many_rights", Level::kNotice, [](auto& facts) { facts.is_superuser = true; }},
      {"too_many_rights", Level::kNotice, [](auto& facts) { facts.owns_tables = true; }},
      {"no_relay", Level::kNotice, [](auto& facts) { facts.has_events = true; }},
  };
  for (const Illness& illness : illnesses) {
    postgres::DoctorFacts facts = Healthy();
    illness.infect(facts);
    const auto problems = Problems(JudgePostgres("store a", facts));
    ASSERT_EQ(problems.size(), 1U) << illness.code;
    EXPECT_EQ(problems[0].code, illness.code);
    EXPECT_EQ(problems[0].level, illness.level) << illness.code;
  }
}

TEST(JudgePostgres, NamesTheRoleThatTheSchemaHas) {
  postgres::DoctorFacts facts = Healthy();
  facts.relay_role = "sealane_shop_relay";
  facts.missing_rights = {"insert on parked"};
  EXPECT_EQ(Problems(JudgePostgres("store a", facts)).at(0).next, "grant sealane_shop_relay to relay");
  facts.missing_rights.clear();
  facts.owns_tables = true;
  EXPECT_EQ(Problems(JudgePostgres("store a", facts)).at(0).next,
            "create role relay login in role sealane_shop_relay, and name it in store.url");
}

TEST(JudgeSchema, ComparesVersions) {
  SchemaState state;
  state.known = 2;
  EXPECT_EQ(JudgeSchema("s", state)[0].code, "schema_missing");
  state.installed = 3;
  EXPECT_EQ(JudgeSchema("s", state)[0].code, "schema_newer");
  state.installed = 2;
  EXPECT_EQ(JudgeSchema("s", state)[0].level, Level::kGood);
  state.installed = 1;
  state.pending.emplace_back();
  EXPECT_EQ(JudgeSchema("s", state)[0].code, "schema_older");
}

TEST(JudgeKafka, KnowsTheLibrarysLimits) {
  const BrokerReport modern{.library_version = "2.11.0", .cluster_id = "c", .brokers = {{1, "b1:9092"}}};
  EXPECT_TRUE(Problems(JudgeKafka("broker a", modern, "SCRAM-SHA-512")).empty());
  BrokerReport old{.library_version = "2.0.2", .cluster_id = "c", .brokers = {{1, "b1:9092"}}};
  const auto scram = Problems(JudgeKafka("broker a", old, "SCRAM-SHA-512"));
  ASSERT_EQ(scram.size(), 2U);
  EXPECT_EQ(scram[0].code, "scram_with_old_library");
  EXPECT_EQ(scram[0].level, Level::kNotice) << "it did log in";
  old.problem = Error(ErrorKind::kMisconfigured, "login_refused", "no").WithHint("check it");
  EXPECT_EQ(Problems(JudgeKafka("broker a", old, "SCRAM-SHA-512"))[1].level, Level::kWrong);
  EXPECT_EQ(Problems(JudgeKafka("broker a", old, ""))[0].code, "login_refused");
}

TEST(IsOlderThan, ComparesNumbers) {
  EXPECT_TRUE(IsOlderThan("2.0.2", 2, 11));
  EXPECT_TRUE(IsOlderThan("2.9.0", 2, 11));
  EXPECT_TRUE(IsOlderThan("1.12.0", 2, 3));
  EXPECT_FALSE(IsOlderThan("2.11.0", 2, 11));
  EXPECT_FALSE(IsOlderThan("3.0.0-RC1", 2, 11));
  EXPECT_TRUE(IsOlderThan("nonsense", 2, 3)) << "when in doubt, say so";
}

TEST(DoctorCommand, ExaminesASqliteFileAndAJournal) {
  const sealane::testing::SqliteFile file;
  CommandRunner runner;
  runner.variables = {{"SEALANE_STORE__URL", "sqlite:" + file.path()},
                      {"SEALANE_BROKER__URL", "journal:" + file.folder() + "/journal.db"}};
  const CommandResult missing = runner.Run({"doctor"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.out, HasSubstr("next: sealane migrate up"));
  for (const json& finding : json::parse(runner.Run({"doctor", "-o", "json"}).out)["findings"]) {
    if (finding["level"] == "ok") continue;
    EXPECT_TRUE(finding.contains("evidence") && finding.contains("next")) << finding;
  }
  ASSERT_EQ(runner.Run({"migrate", "up"}).code, 0);
  const CommandResult fine = runner.Run({"doctor", "-o", "json"});
  EXPECT_EQ(fine.code, 0) << fine.out;
  const json findings = json::parse(fine.out)["findings"];
  for (const json& finding : findings) {
    // How much room there is on this machine is not for this test to say. Nobody has published to the journal.
    if (finding["code"] == "disk_space_scarce" || finding["code"] == "journal_missing") continue;
    EXPECT_EQ(finding["level"], "ok") << finding;
  }
  runner.variables["SEALANE_OUTBOX__PAYLOAD_MAX"] = "9MiB";
  EXPECT_THAT(runner.Run({"doctor"}).out, HasSubstr("next: lower outbox.payload_max"));
  const CommandResult away = runner.Run({"doctor", "--store", "postgres://nobody@127.0.0.1:1/x", "-o", "json"});
  EXPECT_EQ(away.code, 3);
  EXPECT_THAT(away.out, HasSubstr("store_unreachable"));
}

TEST(DoctorCommand, ChangesNothing) {
  const sealane::testing::SqliteFile file;
  CommandRunner runner;
  runner.variables = {{"SEALANE_STORE__URL", "sqlite:" + file.path()},
                      {"SEALANE_BROKER__URL", "journal:" + file.folder() + "/new.db"}};
  EXPECT_EQ(runner.Run({"doctor"}).code, 3);
  EXPECT_TRUE(std::filesystem::is_empty(file.folder())) << "a file that is missing is not made";
  ASSERT_EQ(runner.Run({"migrate", "up"}).code, 0);
  ASSERT_EQ(runner.Run({"emit", "--topic", "t", "--key", "k", "--type", "T", "--payload", "{}"}).code, 0);
  sealane::testing::SqliteHandle(file.path()).Execute("DELETE FROM sealane_route");
  const auto names = [&] {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(file.folder())) found.insert(entry.path().string());
    return found;
  };
  const auto before = names();
  const CommandResult doctor = runner.Run({"doctor"});
  EXPECT_EQ(doctor.code, 0) << doctor.out;
  EXPECT_THAT(doctor.out, HasSubstr("new.db is not there yet"));
  EXPECT_EQ(names(), before);
  EXPECT_EQ(sealane::testing::SqliteHandle(file.path()).Number("SELECT count(*) FROM sealane_route"), 0)
      << "looking at a route as a relay does would make it";
}

TEST(DoctorCommand, NamesARouteThatNoConfigurationRuns) {
  const sealane::testing::SqliteFile file;
  const std::string config = file.folder() + "/sealane.toml";
  std::ofstream(config) << "[store]\nurl = \"sqlite:" << file.path()
                        << "\"\n[broker]\nurl = \"journal:" << file.folder() << "/journal.db\"\n";
  const CommandRunner runner;
  ASSERT_EQ(runner.Run({"migrate", "up", "--config", config}).code, 0);
  ASSERT_EQ(runner
                .Run({"emit", "--topic", "orders", "--key", "o-1", "--type", "OrderPlaced", "--payload", "{}",
                      "--config", config})
                .code,
            0);
  EXPECT_THAT(runner.Run({"doctor", "--config", config}).out, Not(HasSubstr("in no configuration")));

  std::ofstream(config, std::ios::app) << "[route.audit]\n";
  const CommandResult relay = runner.Run({"relay", "--until", "drained", "--config", config});
  EXPECT_EQ(relay.code, 0) << relay.err;
  EXPECT_THAT(relay.err, HasSubstr("route main of the store is in no configuration, 1 event waits"));
  const CommandResult doctor = runner.Run({"doctor", "--config", config});
  EXPECT_EQ(doctor.code, 0) << doctor.out;
  EXPECT_THAT(doctor.out, HasSubstr("notice  store default: route main of the store is in no configuration"));
  EXPECT_THAT(doctor.out, HasSubstr("next: sealane messages list --route main --status PENDING"));

  std::ofstream(config, std::ios::app) << "[route.main]\n";
  EXPECT_THAT(runner.Run({"relay", "--until", "drained", "--config", config}).err,
              Not(HasSubstr("no configuration")));
  EXPECT_THAT(runner.Run({"doctor", "--config", config}).out, Not(HasSubstr("in no configuration")));
}

}  // namespace
}  // namespace sealane::cli
