// Protects the commands by which a person looks at inboxes and decides about what consumers have set aside: nothing
// changes without a reason and, for more than one event, a yes; everything ends up in the audit trail. Runs on a
// SQLite file.

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

constexpr const char* kFirst = "018f2f1e-7a5b-7c3d-9e1f-000000000001";
constexpr const char* kBehind = "018f2f1e-7a5b-7c3d-9e1f-000000000002";
constexpr const char* kGap = "018f2f1e-7a5b-7c3d-9e1f-000000000003";
constexpr const char* kShared = "018f2f1e-7a5b-7c3d-9e1f-000000000004";
constexpr const char* kDone = "018f2f1e-7a5b-7c3d-9e1f-000000000005";
constexpr const char* kNone = "018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f";

/// At `billing` one that is dead and one behind it, a gap, one that is done, and one that failed at `report` too.
class InboxCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    runner_.variables = {{"SEALANE_STORE__URL", "sqlite:" + file_.path()}, {"USER", "ann"}};
    ASSERT_EQ(runner_.Run({"migrate", "up"}).code, 0);
    Execute("insert into sealane_inbox_consumer (consumer, mode) values ('billing', 'record'), ('report', 'record')");
    Parked("billing", kFirst, "orders/o-1", "DEAD", "unknown_currency");
    Parked("billing", kBehind, "orders/o-1", "RECEIVED", "");
    Parked("billing", kGap, "o-2", "GAP", "version_gap");
    Parked("billing", kShared, "o-3", "FAILED", "handler_failed");
    Parked("report", kShared, "o-3", "FAILED", "handler_failed");
    Receipt("billing", kDone, "PROCESSED");
  }

  void Execute(const std::string& sql) const { SqliteHandle(file_.path()).Execute(sql); }
  void Receipt(const std::string& consumer, const std::string& id, const std::string& state) const {
    Execute(
        "insert into sealane_inbox (consumer, event_id, filed_at, state, type, topic, partition, \"offset\", "
        "payload_hash, received_at) values ('" +
        consumer + "', '" + id + "', 1700000000000000, '" + state +
        "', 'T', 'orders', 0, 7, zeroblob(32), 1700000001000000)");
  }
  void Parked(const std::string& consumer, const std::string& id, const std::string& key, const std::string& state,
              const std::string& code) const {
    Receipt(consumer, id, state);
    Execute(
        "insert into sealane_inbox_parked (consumer, event_id, unit, state, attempts, parked_at, first_failed_at, "
        "error_code, error_message, type, filed_at, payload_hash, topic, partition, \"offset\", published_at, key, "
        "value, headers) values ('" +
        consumer + "', '" + id + "', cast('" + key + "' as blob), '" + state +
        "', 3, 1700000000000000, 1700000000000000, nullif('" + code +
        "', ''), 'it said no', 'T', 1700000000000000, zeroblob(32), 'orders', 0, 7, 0, x'', x'', x'')");
  }
  std::string StateOf(const std::string& id, const std::string& consumer = "billing") const {
    const std::string where = " where event_id = '" + id + "' and consumer = '" + consumer + "'";
    const SqliteHandle handle(file_.path());
    return handle.Text("select state from sealane_inbox_parked" + where) + " " +
           handle.Text("select state from sealane_inbox" + where);
  }
  std::int64_t AttemptsOf(const std::string& id) const {
    return SqliteHandle(file_.path())
        .Number("select max(attempts) from sealane_inbox_parked where event_id = '" + id + "'");
  }
  std::string LastAudit() const {
    return SqliteHandle(file_.path())
        .Text("select actor || ' ' || action || ': ' || reason from sealane_audit order by id desc limit 1");
  }
  json Json(Words words) const {
    words.insert(words.end(), {"-o", "json"});
    const CommandResult result = runner_.Run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out);
  }

  SqliteFile file_;
  CommandRunner runner_;
};

TEST_F(InboxCommandTest, ShowsHowConsumersStand) {
  const CommandResult status = runner_.Run({"inbox", "status"});
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_THAT(status.out, HasSubstr("billing"));
  EXPECT_THAT(status.err, HasSubstr("next: sealane inbox parked"));
  const json consumers = Json({"inbox", "status"})["consumers"];
  ASSERT_EQ(consumers.size(), 2U);
  EXPECT_EQ(consumers[0]["consumer"], "billing");
  EXPECT_EQ(consumers[0]["mode"], "record");
  EXPECT_EQ(consumers[0]["receipts"]["PROCESSED"], 1);
  EXPECT_EQ(consumers[0]["parked"], 4);
  EXPECT_EQ(consumers[0]["dead"], 1);
  EXPECT_EQ(consumers[0]["gaps"], 1);
  EXPECT_EQ(consumers[0]["oldest_parked_at"], "2023-11-14T22:13:20.000000Z");
  EXPECT_EQ(consumers[0]["partitions"].size(), 0U);
}

TEST_F(InboxCommandTest, ListsReceipts) {
  EXPECT_THAT(runner_.Run({"inbox", "list"}).out, HasSubstr(kDone));
  const json done = Json({"inbox", "list", "--consumer", "billing", "--state", "PROCESSED"});
  ASSERT_EQ(done["receipts"].size(), 1U);
  EXPECT_EQ(done["receipts"][0]["id"], kDone);
  EXPECT_EQ(done["receipts"][0]["offset"], 7);
  EXPECT_EQ(done["more"], false);
  EXPECT_EQ(Json({"inbox", "list", "--id", kShared})["receipts"].size(), 2U);
  EXPECT_EQ(Json({"inbox", "list", "--limit", "1"})["more"], true);
  EXPECT_EQ(Json({"inbox", "list", "--topic", "none"})["receipts"].size(), 0U);
  EXPECT_EQ(runner_.Run({"inbox", "list", "--state", "done"}).code, 2);
  EXPECT_EQ(runner_.Run({"inbox", "list", "--id", "nonsense"}).code, 2);
  EXPECT_EQ(runner_.Run({"inbox", "list", "--consumer", "biling"}).code, 4);
}

TEST_F(InboxCommandTest, ListsWhatIsParkedAndGaps) {
  const CommandResult all = runner_.Run({"inbox", "parked"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr(kFirst));
  EXPECT_THAT(all.out, Not(HasSubstr(kBehind)));
  EXPECT_THAT(all.err, HasSubstr("next: sealane inbox show "));
  const json dead = Json({"inbox", "parked", "--consumer", "billing", "--state", "DEAD"})["parked"];
  ASSERT_EQ(dead.size(), 1U);
  EXPECT_EQ(dead[0]["unit"], "orders/o-1");
  EXPECT_EQ(dead[0]["attempts"], 3);
  EXPECT_EQ(dead[0]["followers"], 1);
  EXPECT_EQ(dead[0]["error_code"], "unknown_currency");
  const json gaps = Json({"inbox", "gaps"})["parked"];
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_EQ(gaps[0]["id"], kGap);
  EXPECT_EQ(runner_.Run({"inbox", "parked", "--state", "PROCESSED"}).code, 2);
  EXPECT_EQ(runner_.Run({"inbox", "parked", "--limit", "0"}).code, 2);
  EXPECT_EQ(Json({"inbox", "parked", "--topic", "orders", "--key", "o-1"})["parked"].size(), 1U);
  EXPECT_THAT(runner_.Run({"inbox", "parked", "--topic", "orders", "--key", "none"}).err,
              HasSubstr("nothing is set aside"));
  EXPECT_EQ(runner_.Run({"inbox", "parked", "--key", "o-1"}).code, 2) << "of which topic?";
}

TEST_F(InboxCommandTest, ShowsOne) {
  const CommandResult shown = runner_.Run({"inbox", "show", kFirst});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("unknown_currency: it said no"));
  EXPECT_THAT(shown.err, HasSubstr(std::string("next: sealane inbox retry ") + kFirst));
  const json both = Json({"inbox", "show", kShared});
  EXPECT_EQ(both["receipts"].size(), 2U);
  EXPECT_EQ(both["parked"].size(), 2U);
  EXPECT_EQ(Json({"inbox", "show", kShared, "--consumer", "report"})["parked"].size(), 1U);
  EXPECT_EQ(runner_.Run({"inbox", "show", kNone}).code, 4);
  EXPECT_EQ(runner_.Run({"inbox", "show", "nonsense"}).code, 2);
}

TEST_F(InboxCommandTest, ChangesNothingWithoutAReason) {
  for (const Words& words : {Words{"inbox", "retry", kFirst}, Words{"inbox", "skip", kFirst},
                             Words{"inbox", "retry", kFirst, "--reason", " "}}) {
    EXPECT_EQ(runner_.Run(words).code, 2) << words[1];
  }
  EXPECT_EQ(LastAudit(), "<no row>");
}

TEST_F(InboxCommandTest, RetriesOne) {
  const CommandResult done = runner_.Run({"inbox", "retry", kFirst, "--reason", "currency added"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(StateOf(kFirst), "FAILED FAILED");
  EXPECT_EQ(AttemptsOf(kFirst), 0);
  EXPECT_EQ(AttemptsOf(kGap), 3) << "the others are left alone";
  EXPECT_EQ(LastAudit(), "ann inbox.retry: currency added");
  EXPECT_EQ(runner_.Run({"inbox", "retry", kNone, "--reason", "x"}).code, 4);
  EXPECT_EQ(runner_.Run({"inbox", "retry", kBehind, "--reason", "x"}).code, 4) << "it waits for nothing of its own";
}

TEST_F(InboxCommandTest, AsksWhichConsumerIsMeant) {
  const CommandResult unclear = runner_.Run({"inbox", "skip", kShared, "--reason", "x"});
  EXPECT_EQ(unclear.code, 2);
  EXPECT_THAT(unclear.err, HasSubstr("billing, report"));
  EXPECT_EQ(runner_.Run({"inbox", "skip", kShared, "--consumer", "report", "--reason", "x"}).code, 0);
  EXPECT_EQ(StateOf(kShared, "report"), "SKIPPED SKIPPED");
  EXPECT_EQ(StateOf(kShared, "billing"), "FAILED FAILED");
}

TEST_F(InboxCommandTest, RetriesManyOnlyAfterAYes) {
  Words words = {"inbox", "retry", "--code", "handler_failed", "--reason", "fixed"};
  const CommandResult refused = runner_.Run(words);
  EXPECT_EQ(refused.code, 6) << refused.err;
  EXPECT_EQ(AttemptsOf(kShared), 3);
  words.emplace_back("--yes");
  const CommandResult done = runner_.Run(words);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("2 events are due now"));
  EXPECT_EQ(AttemptsOf(kShared), 0);
  EXPECT_EQ(AttemptsOf(kFirst), 3);
}

TEST_F(InboxCommandTest, RetriesTheOnlyOneThatMatchesWithoutAsking) {
  const CommandResult done = runner_.Run({"inbox", "retry", "--code", "unknown_currency", "--reason", "fixed"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "1 event is due now\n");
  EXPECT_EQ(AttemptsOf(kFirst), 0);
}

TEST_F(InboxCommandTest, ShowsWhatARetryWouldDo) {
  const json plan = Json({"inbox", "retry", "--all", "--dry-run", "--reason", "x"});
  EXPECT_EQ(plan["would_change"], 4);
  EXPECT_EQ(plan["parked"].size(), 4U);
  EXPECT_EQ(AttemptsOf(kFirst), 3);
  EXPECT_EQ(LastAudit(), "<no row>");
}

TEST_F(InboxCommandTest, WantsOneWayToSelect) {
  EXPECT_EQ(runner_.Run({"inbox", "retry", "--reason", "x"}).code, 2);
  EXPECT_EQ(runner_.Run({"inbox", "retry", kFirst, "--all", "--reason", "x"}).code, 2);
  EXPECT_EQ(runner_.Run({"inbox", "retry", "--all", "--code", "c", "--reason", "x"}).code, 2);
}

TEST_F(InboxCommandTest, SkipsOne) {
  EXPECT_EQ(Json({"inbox", "skip", kFirst, "--reason", "booked by hand", "--actor", "bob"})["changed"], 1);
  EXPECT_EQ(StateOf(kFirst), "SKIPPED SKIPPED");
  EXPECT_EQ(StateOf(kBehind), "RECEIVED RECEIVED");
  EXPECT_EQ(LastAudit(), "bob inbox.skip: booked by hand");
  EXPECT_EQ(runner_.Run({"inbox", "skip", kFirst, "--reason", "again"}).code, 4);
}

}  // namespace
}  // namespace sealane::cli
