// Protects examples/case_approval, which readers copy: what happens to a case is told in its transaction, the read
// model follows one version after the other, tenants never meet, and a broker that is away keeps nobody from working.

#include <csignal>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/eventually.hpp"
#include "support/example_place.hpp"
#include "support/http_receiver.hpp"
#include "support/kafka_cluster.hpp"
#include "support/running_relay.hpp"

namespace sealane::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kNote = "informant is J. Doe";

class ExampleCaseApproval : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgres_kafka") SEALANE_REQUIRE_KAFKA();
    place_ = std::make_unique<ExamplePlace>(GetParam(), Words{"cases", "case-commands"});
    cases_ = std::make_unique<ExampleStore>(place_->is_kafka(), "examples/case_approval/schema.sql");
    view_ = std::make_unique<ExampleStore>(place_->is_kafka(), "examples/case_approval/view.sql");
    for (const char* tenant : {"north", "south"}) Run({"tenant", cases_->url(), tenant});
  }

  CommandResult Try(Words words) const {
    words.insert(words.begin(), EXAMPLE_CASE_APPROVAL);
    return ChildProcess(words, {}, place_->folder()).Finish();
  }
  /// What it says when it ends well.
  std::string Run(const Words& words) const {
    const CommandResult run = Try(words);
    EXPECT_EQ(run.code, 0) << run.out << run.err;
    return run.out;
  }
  void Open(const std::string& tenant, const std::string& id) const {
    Run({"open", cases_->url(), tenant, id, "Case " + id, kNote});
  }
  void Approve(const std::string& tenant, const std::string& id) const {
    Run({"assign", cases_->url(), tenant, id, "ann"});
    Run({"approve", cases_->url(), tenant, id, "ben"});
  }
  void Relay() const {
    const CommandResult relay = place_->Relay(*cases_);
    EXPECT_EQ(relay.code, 0) << relay.err;
  }
  std::string KeepView(const std::string& tenants = "north,south", const std::string& broker = {}) const {
    return Run({"view", view_->url(), broker.empty() ? place_->broker_url() : broker, place_->Topic("view"),
                place_->Topic("cases"), tenants, "caught-up"});
  }
  /// An event about the case `c-1` of `north`, as if the service had told it.
  void Tell(const std::string& type, int version, const std::string& payload) const {
    const CommandResult told = RunSealane({"emit",
                                           "--topic",
                                           "cases",
                                           "--key",
                                           "north/c-1",
                                           "--type",
                                           type,
                                           "--tenant",
                                           "north",
                                           "--aggregate-type",
                                           "case",
                                           "--aggregate-id",
                                           "c-1",
                                           "--aggregate-version",
                                           std::to_string(version),
                                           "--payload",
                                           payload,
                                           "--no-unique-version",
                                           "--store",
                                           cases_->url()});
    EXPECT_EQ(told.code, 0) << told.err;
  }

  Rows Cases() const {
    return cases_->Query(
        "SELECT tenant_id, case_id, status, approved_by, version FROM case_file "
        "ORDER BY tenant_id, case_id");
  }
  Rows Events() const {
    return cases_->Query(
        fmt::format("SELECT tenant, topic, kind, type, key FROM {} ORDER BY seq", cases_->Table("outbox")));
  }
  Rows View() const {
    return view_->Query(
        "SELECT tenant_id, case_id, status, source_version FROM case_view ORDER BY tenant_id, case_id");
  }
  Rows SetAside() const {
    return view_->Query(fmt::format("SELECT state, error_code FROM {} ORDER BY 1, 2", view_->Table("inbox_parked")));
  }

  std::unique_ptr<ExamplePlace> place_;
  std::unique_ptr<ExampleStore> cases_;
  std::unique_ptr<ExampleStore> view_;
};

TEST_P(ExampleCaseApproval, AnApprovalIsTheRowTheEventAndTheCommand) {
  Open("north", "c-1");
  Approve("north", "c-1");
  EXPECT_EQ(Cases(), (Rows{{"north", "c-1", "APPROVED", "ben", "3"}}));
  EXPECT_EQ(Events(), (Rows{{"north", "cases", "event", "case.opened", "north/c-1"},
                            {"north", "cases", "event", "case.assigned", "north/c-1"},
                            {"north", "cases", "event", "case.approved", "north/c-1"},
                            {"north", "case-commands", "command", "SendApprovalEmail", "north/c-1"}}));
  EXPECT_THAT(cases_->Dump("outbox"), HasSubstr("approved_by"));
  EXPECT_THAT(cases_->Dump("outbox"), Not(HasSubstr(kNote))) << "a note that is private";
  Relay();
  EXPECT_EQ(KeepView(), "3 applied, 0 stale\n");
  EXPECT_EQ(View(), (Rows{{"north", "c-1", "approved", "3"}}));
  EXPECT_THAT(place_->Content("cases"), HasSubstr("case.approved"));
  EXPECT_THAT(place_->Content("cases"), Not(HasSubstr(kNote)));
}

TEST_P(ExampleCaseApproval, WhatIsRefusedLeavesNothing) {
  Open("north", "c-1");
  const Rows cases = Cases();
  const Rows events = Events();
  const CommandResult early = Try({"approve", cases_->url(), "north", "c-1", "ben"});
  EXPECT_EQ(early.code, 1);
  EXPECT_THAT(early.err, HasSubstr("OPEN"));
  EXPECT_EQ(Try({"open", cases_->url(), "north", "c-1", "Again", "n"}).code, 1);
  Run({"assign", cases_->url(), "north", "c-1", "ann"});
  const CommandResult own = Try({"approve", cases_->url(), "north", "c-1", "ann"});
  EXPECT_THAT(own.err, HasSubstr("somebody else approves it"));
  EXPECT_EQ(Cases(), (Rows{{"north", "c-1", "ASSIGNED", "", "2"}}));
  EXPECT_EQ(Events().size(), events.size() + 1);

  // The event cannot be written, after the row was: neither stays.
  cases_->Execute(
      place_->is_kafka()
          ? "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no room'; END $$;"
            "CREATE TRIGGER no_room BEFORE INSERT ON sealane.outbox FOR EACH ROW EXECUTE FUNCTION no_room()"
          : "CREATE TRIGGER no_room BEFORE INSERT ON sealane_outbox BEGIN SELECT raise(ABORT, 'no room'); END");
  EXPECT_EQ(Try({"approve", cases_->url(), "north", "c-1", "ben"}).code, 1);
  EXPECT_EQ(Cases(), (Rows{{"north", "c-1", "ASSIGNED", "", "2"}}));
  EXPECT_EQ(Events().size(), events.size() + 1);
}

TEST_P(ExampleCaseApproval, TenantsNeverTouchEachOthersRows) {
  // The same id at both, and a tenant that nobody knows.
  Open("north", "c-1");
  Open("south", "c-1");
  const CommandResult stranger = Try({"open", cases_->url(), "east", "c-1", "t", "n"});
  EXPECT_EQ(stranger.code, 1);
  EXPECT_THAT(stranger.err, HasSubstr("there is no tenant `east`"));
  EXPECT_THAT(Try({"assign", cases_->url(), "south", "c-9", "ann"}).err, HasSubstr("has no case"));
  Approve("north", "c-1");
  EXPECT_EQ(Cases(), (Rows{{"north", "c-1", "APPROVED", "ben", "3"}, {"south", "c-1", "OPEN", "", "1"}}));

  // A view that serves one tenant sets the other's events aside, unseen; a view of both keeps them apart.
  Relay();
  EXPECT_EQ(KeepView("north"), "3 applied, 0 stale\n");
  EXPECT_EQ(View(), (Rows{{"north", "c-1", "approved", "3"}}));
  EXPECT_EQ(SetAside(), (Rows{{"DEAD", "tenant_not_allowed"}}));
  const CommandResult retried = RunSealane(
      {"inbox", "retry", "--all", "--reason", "south moved here", "--actor", "t", "--yes", "--store", view_->url()});
  ASSERT_EQ(retried.code, 0) << retried.err;
  const Rows both = {{"north", "c-1", "approved", "3"}, {"south", "c-1", "open", "1"}};
  EXPECT_TRUE(Eventually([&] { return KeepView("north,south"), View() == both; }));
}

TEST_P(ExampleCaseApproval, TheViewIgnoresWhatIsStaleAndWaitsForWhatIsMissing) {
  Tell("case.opened", 1, R"({"case_id":"c-1","title":"Case c-1"})");
  Tell("case.approved", 3, R"({"case_id":"c-1","approved_by":"ben"})");
  Relay();
  EXPECT_EQ(KeepView(), "1 applied, 0 stale\n");
  EXPECT_EQ(view_->Query(fmt::format("SELECT aggregate_version FROM {}", view_->Table("inbox_parked"))), Rows{{"3"}});
  EXPECT_EQ(View(), (Rows{{"north", "c-1", "open", "1"}})) << "nothing is shown before what led to it";
  Tell("case.assigned", 2, R"({"case_id":"c-1","assignee":"ann"})");
  Tell("case.assigned", 1, R"({"case_id":"c-1","assignee":"eve"})");
  Relay();
  const Rows all = {{"north", "c-1", "approved", "3"}};
  EXPECT_TRUE(Eventually([&] { return KeepView(), View() == all && SetAside().empty(); }));
  EXPECT_EQ(view_->Query("SELECT assignee, approved_by FROM case_view"), (Rows{{"ann", "ben"}}))
      << "the second version 1 came too late";
}

TEST_P(ExampleCaseApproval, ACommandBecomesOneMail) {
  HttpReceiver post_office;
  Open("north", "c-1");
  Approve("north", "c-1");
  Relay();
  // Two consumers without a common memory, as after a replay: the command's id is the key of the mail.
  for (const char* consumer : {"mail", "mail-2"}) {
    Run({"mail", view_->url(), place_->broker_url(), place_->Topic(consumer), place_->Topic("case-commands"), "north",
         "caught-up"});
  }
  const CommandResult sent = RunSealane({"tasks", "run", "--target", "mail=" + post_office.url(""), "--store",
                                         view_->url(), "--until", "drained", "--timeout", "60s"});
  EXPECT_EQ(sent.code, 0) << sent.err;
  const auto requests = post_office.requests();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].body, R"({"subject":"Approved: Case c-1","to":"ann"})");
  const auto command =
      cases_->Query(fmt::format("SELECT event_id FROM {} WHERE kind = 'command'", cases_->Table("outbox")));
  EXPECT_EQ(requests[0].Header("idempotency-key"), command.at(0).at(0));
}

TEST_P(ExampleCaseApproval, WorkGoesOnWhileTheBrokerIsAwayAndEverythingArrivesAfterwards) {
  std::unique_ptr<PrivateKafka> kafka;  // of our own, because it is stopped
  std::string broker = place_->broker_url();
  if (place_->is_kafka()) {
    kafka = std::make_unique<PrivateKafka>(1);
    broker = kafka->url();
    CreateTopic(broker, place_->Topic("cases"), 2);
    CreateTopic(broker, place_->Topic("case-commands"), 2);
  }
  auto variables = place_->RelayVariables();
  variables["SEALANE_LOG__LEVEL"] = "info";
  const RunningRelay relay(place_->folder(), {"--store", cases_->url(), "--broker", broker}, variables);
  ASSERT_TRUE(relay.Says("state=running")) << relay.log();
  std::unique_ptr<SqliteHandle> holder;
  if (kafka) {
    kafka->StopNode(1);
  } else {
    // A journal is away as long as somebody else keeps it.
    holder = std::make_unique<SqliteHandle>(place_->folder() + "/journal.db");
    sqlite3_busy_timeout(holder->get(), 30'000);
    holder->Execute("BEGIN IMMEDIATE");
  }
  for (int i = 0; i < 5; ++i) {
    Open("north", fmt::format("c-{}", i));
    Approve("north", fmt::format("c-{}", i));
  }
  EXPECT_EQ(cases_->Number("SELECT count(*) FROM case_file WHERE status = 'APPROVED'"), 5);
  const auto published =
      fmt::format("SELECT count(*) FROM {} WHERE status = 'PUBLISHED'", cases_->Table("outbox_status"));
  EXPECT_EQ(cases_->Number(published), 0);

  if (kafka) {
    kafka->StartNode(1);
  } else {
    holder->Execute("ROLLBACK");
  }
  EXPECT_TRUE(Eventually([&] { return cases_->Number(published) == 20; }, std::chrono::seconds{240})) << relay.log();
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
  EXPECT_EQ(KeepView("north", broker), "15 applied, 0 stale\n");
  EXPECT_EQ(view_->Number("SELECT count(*) FROM case_view WHERE status = 'approved' AND source_version = 3"), 5);
}

INSTANTIATE_TEST_SUITE_P(Places, ExampleCaseApproval, ::testing::Values("sqlite_journal", "postgres_kafka"),
                         [](const auto& place) { return place.param; });

}  // namespace
}  // namespace sealane::testing
