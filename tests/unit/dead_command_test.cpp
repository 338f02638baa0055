// Protects the commands by which a person decides about failed events, tenants and routes: nothing changes without a
// reason and, for more than one event, a yes; everything ends up in the audit trail. Runs on a SQLite file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/command_run.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::cli {
namespace {

using nlohmann::json;
using sealane::testing::CommandResult;
using sealane::testing::CommandRunner;
using sealane::testing::SqliteFile;
using sealane::testing::SqliteHandle;
using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

class DeadCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    runner_.variables = {{"SEALANE_STORE__URL", "sqlite:" + file_.path()}, {"USER", "ann"}};
    ASSERT_EQ(runner_.Run({"migrate", "up"}).code, 0);
    first_ = Parked("orders", "o-1", "DEAD", "message_too_large");
    second_ = Parked("orders", "o-2", "FAILED", "http_500");
    third_ = Parked("mail", "m-1", "DEAD", "http_500");
  }

  std::string Parked(const std::string& topic, const std::string& key, const std::string& state,
                     const std::string& code) {
    const CommandResult emitted =
        runner_.Run({"emit", "--topic", topic, "--key", key, "--type", "T", "--payload", "{}"});
    EXPECT_EQ(emitted.code, 0) << emitted.err;
    const std::string id = emitted.out.substr(0, 36);
    const SqliteHandle handle(file_.path());
    handle.Execute(
        "insert into sealane_parked (route, seq, event_id, key, state, attempts, first_failed_at, "
        "last_failed_at, error_code, error_message, unit, topic) select 'main', seq, event_id, key, '" +
        state + "', 3, 1700000000000000, 1700000001000000, '" + code +
        "', 'it said no', key, topic from sealane_outbox where event_id = '" + id + "'");
    return id;
  }
  /// With somebody who types.
  CommandResult AtTerminal(const Words& words, const std::string& typed) const {
    std::istringstream in(typed);
    std::ostringstream out;
    std::ostringstream err;
    Streams streams{
        .in = in, .out = out, .err = err, .out_is_terminal = true, .err_is_terminal = true, .in_is_terminal = true};
    CommandResult result;
    result.code = RunCommandLine(words, streams, {.variables = runner_.variables, .config_candidates = {}});
    result.out = out.str();
    result.err = err.str();
    return result;
  }
  std::string StateOf(const std::string& id) const {
    return SqliteHandle(file_.path()).Text("select state from sealane_parked where event_id = '" + id + "'");
  }
  std::int64_t AttemptsOf(const std::string& id) const {
    return SqliteHandle(file_.path()).Number("select attempts from sealane_parked where event_id = '" + id + "'");
  }
  std::string LastAudit() const {
    return SqliteHandle(file_.path())
        .Text("select actor || ' ' || action || ': ' || reason from sealane_audit order by id desc limit 1");
  }

  SqliteFile file_;
  CommandRunner runner_;
  std::string first_;
  std::string second_;
  std::string third_;
};

TEST_F(DeadCommandTest, ListsWhatIsSetAside) {
  const CommandResult all = runner_.Run({"dead", "list"});
  EXPECT_EQ(all.code, 0) << all.err;
  for (const std::string& id : {first_, second_, third_}) EXPECT_THAT(all.out, HasSubstr(id));
  EXPECT_THAT(all.err, HasSubstr("next: sealane dead show "));
  const json some = json::parse(runner_.Run({"dead", "list", "--error-code", "http_500", "-o", "json"}).out);
  ASSERT_EQ(some["dead_letters"].size(), 2U);
  const json dead =
      json::parse(runner_.Run({"dead", "list", "--state", "DEAD", "--topic", "mail", "-o", "json"}).out);
  ASSERT_EQ(dead["dead_letters"].size(), 1U);
  const json& letter = dead["dead_letters"][0];
  EXPECT_EQ(letter["id"], third_);
  EXPECT_EQ(letter["attempts"], 3);
  EXPECT_EQ(letter["error_message"], "it said no");
  EXPECT_EQ(letter["first_failed_at"], "2023-11-14T22:13:20.000000Z");
  EXPECT_EQ(runner_.Run({"dead", "list", "--state", "dying"}).code, 2);
  EXPECT_EQ(runner_.Run({"dead", "list", "--limit", "0"}).code, 2);
  EXPECT_THAT(runner_.Run({"dead", "list", "--topic", "none"}).err, HasSubstr("nothing is set aside"));
}

TEST_F(DeadCommandTest, ShowsOne) {
  const CommandResult shown = runner_.Run({"dead", "show", first_});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("message_too_large: it said no"));
  EXPECT_THAT(shown.err, HasSubstr("next: sealane dead retry " + first_));
  EXPECT_EQ(runner_.Run({"dead", "show", "018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f"}).code, 4);
  EXPECT_EQ(runner_.Run({"dead", "show", "nonsense"}).code, 2);
}

TEST_F(DeadCommandTest, ChangesNothingWithoutAReason) {
  for (const Words& words : {Words{"dead", "retry", first_}, Words{"dead", "discard", first_},
                             Words{"dead", "skip", first_}, Words{"tenants", "pause", "acme"},
                             Words{"route", "pause", "main"}, Words{"dead", "retry", first_, "--reason", " "}}) {
    EXPECT_EQ(runner_.Run(words).code, 2) << words[1];
  }
  EXPECT_EQ(LastAudit(), "<no row>");
}

TEST_F(DeadCommandTest, RetriesOne) {
  const CommandResult done = runner_.Run({"dead", "retry", first_, "--reason", "limit raised"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(StateOf(first_), "FAILED");
  EXPECT_EQ(AttemptsOf(first_), 0);
  EXPECT_EQ(AttemptsOf(third_), 3) << "the others are left alone";
  EXPECT_EQ(LastAudit(), "ann dead.retry: limit raised");
  EXPECT_EQ(runner_.Run({"dead", "retry", "018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f", "--reason", "x"}).code, 4);
}

TEST_F(DeadCommandTest, RetriesManyOnlyAfterAYes) {
  const Words words = {"dead", "retry", "--topic", "orders", "--reason", "fixed"};
  const CommandResult refused = runner_.Run(words);
  EXPECT_EQ(refused.code, 6) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("--yes"));
  EXPECT_EQ(AttemptsOf(first_), 3);
  Words sure = words;
  sure.emplace_back("--yes");
  const CommandResult done = runner_.Run(sure);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("2 events are due now"));
  EXPECT_EQ(AttemptsOf(first_), 0);
  EXPECT_EQ(AttemptsOf(second_), 0);
  EXPECT_EQ(AttemptsOf(third_), 3);
}

TEST_F(DeadCommandTest, AsksAPersonAtATerminal) {
  const Words words = {"dead", "retry", "--all", "--reason", "fixed"};
  const CommandResult no = AtTerminal(words, "n\n");
  EXPECT_EQ(no.code, 6);
  EXPECT_EQ(AttemptsOf(first_), 3);
  const CommandResult yes = AtTerminal(words, "y\n");
  EXPECT_EQ(yes.code, 0) << yes.err;
  EXPECT_THAT(yes.err, HasSubstr("try 3 events again? [y/N]"));
  EXPECT_EQ(AttemptsOf(first_), 0);
}

TEST_F(DeadCommandTest, ShowsWhatARetryWouldDo) {
  const CommandResult plan =
      runner_.Run({"dead", "retry", "--error-code", "http_500", "--dry-run", "--reason", "x", "-o", "json"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  const json document = json::parse(plan.out);
  EXPECT_EQ(document["would_change"], 2);
  EXPECT_EQ(document["dead_letters"].size(), 2U);
  EXPECT_EQ(AttemptsOf(second_), 3);
  EXPECT_EQ(LastAudit(), "<no row>");
}

TEST_F(DeadCommandTest, WantsOneWayToSelect) {
  EXPECT_EQ(runner_.Run({"dead", "retry", "--reason", "x"}).code, 2);
  EXPECT_EQ(runner_.Run({"dead", "retry", first_, "--all", "--reason", "x"}).code, 2);
  EXPECT_EQ(runner_.Run({"dead", "retry", "--all", "--topic", "orders", "--reason", "x"}).code, 2);
}

TEST_F(DeadCommandTest, DiscardsAndSkips) {
  const CommandResult discarded =
      runner_.Run({"dead", "discard", first_, "--reason", "sent by hand", "--actor", "bob", "-o", "json"});
  EXPECT_EQ(discarded.code, 0) << discarded.err;
  EXPECT_EQ(json::parse(discarded.out)["changed"], 1);
  EXPECT_EQ(StateOf(first_), "DISCARDED");
  EXPECT_EQ(LastAudit(), "bob dead.discard: sent by hand");
  const CommandResult skipped = runner_.Run({"dead", "skip", third_, "--reason", "no order here"});
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_EQ(StateOf(third_), "DEAD");
  EXPECT_THAT(runner_.Run({"dead", "list"}).out, HasSubstr("DEAD (skipped)"));
}

TEST_F(DeadCommandTest, ChangesOnePartOfATenantsRule) {
  EXPECT_THAT(runner_.Run({"tenants", "list"}).err, HasSubstr("all are treated alike"));
  EXPECT_EQ(runner_.Run({"tenants", "limit", "acme", "200", "--reason", "slow"}).code, 0);
  EXPECT_EQ(runner_.Run({"tenants", "weight", "acme", "4", "--reason", "premium"}).code, 0);
  const CommandResult paused = runner_.Run({"tenants", "pause", "acme", "--reason", "INC-1"});
  EXPECT_THAT(paused.out, HasSubstr("tenant acme on route main: paused, at most 200/s, weight 4"));
  EXPECT_EQ(LastAudit(), "ann tenant.pause: INC-1");
  const json rules = json::parse(runner_.Run({"tenants", "list", "-o", "json"}).out)["tenants"];
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(rules[0]["rate_max"], 200);
  EXPECT_EQ(rules[0]["weight"], 4);
  EXPECT_EQ(rules[0]["paused"], true);
  EXPECT_EQ(runner_.Run({"tenants", "resume", "acme", "--reason", "over"}).code, 0);
  EXPECT_EQ(runner_.Run({"tenants", "weight", "acme", "0", "--reason", "x"}).code, 2);
  EXPECT_EQ(runner_.Run({"tenants", "limit", "acme", "fast", "--reason", "x"}).code, 2);
  EXPECT_NE(runner_.Run({"tenants", "pause", "acme", "--route", "nowhere", "--reason", "x"}).code, 0);
}

TEST_F(DeadCommandTest, PausesARoute) {
  const CommandResult paused = runner_.Run({"route", "pause", "main", "--reason", "maintenance"});
  EXPECT_EQ(paused.code, 0) << paused.err;
  EXPECT_THAT(paused.err, HasSubstr("next: sealane route resume main"));
  EXPECT_EQ(SqliteHandle(file_.path()).Number("select paused from sealane_route where name = 'main'"), 1);
  EXPECT_EQ(json::parse(runner_.Run({"route", "resume", "main", "--reason", "over", "-o", "json"}).out)["paused"],
            false);
  EXPECT_EQ(SqliteHandle(file_.path()).Number("select paused from sealane_route where name = 'main'"), 0);
  EXPECT_NE(runner_.Run({"route", "pause", "nowhere", "--reason", "x"}).code, 0);
}

}  // namespace
}  // namespace sealane::cli
