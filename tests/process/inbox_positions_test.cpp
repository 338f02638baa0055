// `sealane inbox position`, `resume`, `remove` and `retry --may-apply-twice`: an operator sees which partitions a
// consumer does not read and why, decides with one command, and cannot skip or lose events without being told so
// first.

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sealane/clock.hpp"

#include "inbox/inbox_store.hpp"
#include "support/child_process.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr const char* kOld = "018f2f1e-7a5b-7c3d-9e1f-000000000001";

/// A store that tests fill with rows by SQL; {p} in it begins the names of the tables.
class Place {
 public:
  virtual ~Place() = default;
  virtual std::string url() const = 0;
  virtual void Execute(const std::string& sql) = 0;
  virtual std::string Text(const std::string& sql) = 0;
};

class SqlitePlace final : public Place {
 public:
  SqlitePlace() { file_.Migrate(); }
  std::string url() const override { return "sqlite:" + file_.path(); }
  void Execute(const std::string& sql) override {
    SqliteHandle(file_.path()).Execute(fmt::format(fmt::runtime(sql), fmt::arg("p", "sealane_")));
  }
  std::string Text(const std::string& sql) override {
    return SqliteHandle(file_.path()).Text(fmt::format(fmt::runtime(sql), fmt::arg("p", "sealane_")));
  }

 private:
  SqliteFile file_;
};

/// The commands run as a login that is nothing but an operator.
class PostgresPlace final : public Place {
 public:
  PostgresPlace() {
    EXPECT_EQ(RunSealane({"migrate", "up", "--store", database_.url()}).code, 0);
    PgSession(database_.url())
        .Exec(fmt::format("CREATE ROLE {0} LOGIN; GRANT sealane_{1}_operator TO {0}", user_, database_.name()));
  }
  ~PostgresPlace() override {
    PgSession(database_.url()).Exec(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", user_));
  }
  PostgresPlace(const PostgresPlace&) = delete;
  PostgresPlace& operator=(const PostgresPlace&) = delete;
  std::string url() const override { return database_.UrlAs(user_); }
  void Execute(const std::string& sql) override { Text(sql); }
  std::string Text(const std::string& sql) override {
    return PgSession(database_.url()).Exec(fmt::format(fmt::runtime(sql), fmt::arg("p", "sealane.")));
  }

 private:
  ScratchDatabase database_;
  std::string user_ = database_.name() + "_ann";
};

/// Consumer `billing` with a partition that reads, one that is stopped and one without a position, and one event that
/// was skipped as too old.
class InboxPositions : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (is_sqlite()) {
      place_ = std::make_unique<SqlitePlace>();
    } else {
      place_ = std::make_unique<PostgresPlace>();
    }
    const std::string table = is_sqlite() ? "{p}inbox_partition" : "{p}inbox_progress";
    const std::string name = is_sqlite() ? "consumer" : "name";
    place_->Execute("insert into {p}inbox_consumer (" + name + ", mode) values ('billing', 'record')");
    for (const char* const values : {"'orders', 0, 3, 17, 't-1', null, null",
                                     "'orders', 1, 4, 99, 't-1', 'topic_recreated', 'another topic now'",
                                     "'refunds', 0, 1, null, null, null, null"}) {
      place_->Execute("insert into " + table +
                      " (consumer, topic, partition, epoch, next_offset, topic_id, stop_code, stop_message, clean)"
                      " values ('billing', " +
                      values + (is_sqlite() ? ", 1)" : ", true)"));
    }
    place_->Execute(
        is_sqlite()
            ? fmt::format(
                  "insert into {{p}}inbox_parked (consumer, event_id, unit, state, attempts, parked_at,"
                  " error_code, filed_at, payload_hash, topic, partition, \"offset\", published_at, key, value,"
                  " headers) values ('billing', '{}', cast('orders/k' as blob), 'SKIPPED', 0, 1, 'too_old', 1,"
                  " zeroblob(32), 'orders', 0, 7, 0, x'', x'', x'')",
                  kOld)
            : fmt::format("insert into {{p}}inbox_parked (consumer, event_id, unit, state, attempts, error_code,"
                          " filed_at, payload_hash, topic, partition, \"offset\", published_at, message_key,"
                          " message_value, message_headers) values ('billing', '{}', 'orders/k', 'SKIPPED', 0,"
                          " 'too_old', now(), sha256(''), 'orders', 0, 7, now(), '', '', '')",
                          kOld));
  }

  bool is_sqlite() const { return GetParam() == "sqlite"; }
  CommandResult Run(Words words) const {
    words.insert(words.end(), {"--store", place_->url()});
    return RunSealane(words, {}, {{"USER", "ann"}});
  }
  json Json(Words words) const {
    words.insert(words.end(), {"-o", "json"});
    const CommandResult result = Run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  /// The exit code and the code of the error.
  std::string Refusal(Words words) const {
    words.insert(words.end(), {"-o", "json"});
    const CommandResult result = Run(words);
    const json document = json::parse(result.err, nullptr, false);
    return fmt::format("{} {}", result.code,
                       document.contains("error") ? document["error"]["code"].get<std::string>() : result.err);
  }
  static Words Resume(Words more) {
    Words words = {"inbox", "resume", "--consumer", "billing"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  json Position(const std::string& topic, std::size_t place) const {
    return Json({"inbox", "position", "--topic", topic})["positions"][place];
  }
  std::string LastRecord() const {
    return place_->Text(
        "select actor || ' ' || action || ' ' || target || ': ' || reason from {p}audit order by id desc limit 1");
  }

  std::unique_ptr<Place> place_;
};

INSTANTIATE_TEST_SUITE_P(Store, InboxPositions, ::testing::Values("sqlite", "postgres"),
                         [](const auto& test) { return test.param; });

TEST_P(InboxPositions, AreShownWithWhatIsStoppedAndWhatToDo) {
  const CommandResult shown = Run({"inbox", "position"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("no position yet"));
  EXPECT_THAT(shown.out, HasSubstr("orders/1 of billing is stopped: topic_recreated: another topic now\n"
                                   "  sealane inbox resume --consumer billing --topic orders --partition 1"
                                   " --from beginning --reason \"...\" --store "));
  const json all = Json({"inbox", "position", "--consumer", "billing"})["positions"];
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]["state"], "reads");
  EXPECT_EQ(all[0]["next_offset"], 17);
  EXPECT_EQ(all[0]["attached"], false);
  EXPECT_EQ(all[0]["topic_id"], "t-1");
  EXPECT_EQ(all[1]["state"], "stopped");
  EXPECT_EQ(all[1]["stop_code"], "topic_recreated");
  EXPECT_THAT(all[1]["resume_command"].get<std::string>(), HasSubstr("--partition 1 --from beginning"));
  EXPECT_EQ(all[2]["state"], "no_position");
  EXPECT_FALSE(all[2].contains("next_offset"));
  EXPECT_EQ(Json({"inbox", "position", "--topic", "refunds"})["positions"].size(), 1U);
  EXPECT_EQ(Json({"inbox", "position", "--topic", "none"})["positions"].size(), 0U);

  const CommandResult status = Run({"inbox", "status"});
  EXPECT_THAT(status.err, HasSubstr("some partitions are stopped"));
  EXPECT_EQ(Json({"inbox", "status"})["consumers"][0]["stopped"], 1);
  const CommandResult doctor = Run({"doctor", "-o", "json"});
  EXPECT_NE(doctor.code, 0);
  EXPECT_THAT(doctor.out, HasSubstr("partition_stopped"));
}

TEST_P(InboxPositions, AStoppedPartitionIsResumedByOneCommand) {
  const CommandResult resumed =
      Run(Resume({"--topic", "orders", "--partition", "1", "--from", "beginning", "--reason", "made again"}));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("everything that the topic still has is read again"));
  EXPECT_THAT(resumed.out, HasSubstr("consumer billing resumes 1 partition of topic orders from beginning"));
  EXPECT_EQ(LastRecord(), "ann inbox.resume orders/1 of billing from beginning: made again");
  EXPECT_EQ(Position("orders", 1)["state"], "resumes");
  EXPECT_EQ(Position("orders", 1)["resume_from"], "beginning");
  EXPECT_EQ(Position("orders", 1)["next_offset"], 99);
  EXPECT_EQ(Position("orders", 1)["epoch"], 5);
  EXPECT_EQ(Position("orders", 0)["state"], "reads") << "only the one that was named";

  const json both = Json(Resume({"--topic", "orders", "--from", "2026-01-31T00:00:00Z", "--reason", "x", "--yes"}));
  EXPECT_EQ(both["changed"], 2);
  EXPECT_EQ(both["from"], "2026-01-31T00:00:00.000000Z");
  EXPECT_EQ(both["before"].size(), 2U);
}

TEST_P(InboxPositions, NothingIsSkippedWithoutAYes) {
  for (const char* const from : {"now", "group", "18", "2026-01-31T00:00:00Z", "15m"}) {
    EXPECT_EQ(Refusal(Resume({"--topic", "orders", "--partition", "0", "--from", from, "--reason", "x"})),
              "6 approval_missing")
        << from;
  }
  EXPECT_EQ(Refusal(Resume({"--topic", "orders", "--partition", "1", "--from", "5", "--reason", "x"})),
            "6 approval_missing")
      << "the position of a stopped partition may be one of another topic";
  const json planned = Json(Resume({"--topic", "orders", "--from", "now", "--reason", "x", "--dry-run"}));
  EXPECT_EQ(planned["dry_run"], true);
  EXPECT_EQ(planned["changed"], 0);
  EXPECT_THAT(planned["meaning"].get<std::string>(), HasSubstr("not applied are skipped"));
  EXPECT_EQ(Position("orders", 0)["state"], "reads");
  EXPECT_EQ(Json(Resume({"--topic", "orders", "--partition", "0", "--from", "17", "--reason", "x"}))["changed"], 1)
      << "backwards nothing is skipped";
  EXPECT_EQ(Json(Resume({"--topic", "orders", "--partition", "0", "--from", "18", "--reason", "x", "--yes"}))["from"],
            "18");
}

TEST_P(InboxPositions, NowIsTheTimeOfTheDecisionWheneverItIsTakenUp) {
  const json resumed =
      Json(Resume({"--topic", "orders", "--partition", "0", "--from", "now", "--reason", "x", "--yes"}));
  const auto point = ParseResumePoint(resumed["from"].get<std::string>());
  ASSERT_TRUE(point) << resumed.dump();
  EXPECT_EQ(point->kind, ResumePoint::Kind::kTime);
  EXPECT_LE(point->time, SystemClock::Instance().Now());
}

TEST_P(InboxPositions, WrongInputIsToldApart) {
  EXPECT_EQ(Refusal({"inbox", "position", "--consumer", "biling"}), "4 unknown_consumer");
  EXPECT_EQ(
      Refusal({"inbox", "resume", "--consumer", "biling", "--topic", "orders", "--from", "now", "--reason", "x"}),
      "4 unknown_consumer");
  EXPECT_EQ(Refusal(Resume({"--topic", "order", "--from", "now", "--reason", "x"})), "4 unknown_partition");
  EXPECT_EQ(Refusal(Resume({"--topic", "orders", "--partition", "2", "--from", "now", "--reason", "x"})),
            "4 unknown_partition");
  EXPECT_THAT(Run(Resume({"--topic", "order", "--from", "now", "--reason", "x"})).err,
              HasSubstr("billing knows: orders/0-1, refunds/0"));
  for (const char* const from : {"", "-1", "later", "12x", "99999999999999999999"}) {
    EXPECT_EQ(Refusal(Resume({"--topic", "orders", "--from", from, "--reason", "x"})), "2 bad_usage") << from;
  }
  EXPECT_EQ(Refusal(Resume({"--topic", "orders", "--from", "5", "--reason", "x", "--yes"})), "2 bad_usage")
      << "of which partition?";
  EXPECT_EQ(Refusal(Resume({"--topic", "orders", "--partition", "x", "--from", "now", "--reason", "x"})),
            "2 bad_usage");
  EXPECT_EQ(Refusal(Resume({"--topic", "orders", "--from", "now"})), "2 bad_usage") << "why?";
  EXPECT_EQ(Refusal(Resume({"--topic", "orders", "--from", "now", "--reason", " "})), "2 bad_usage");
  EXPECT_EQ(Refusal({"inbox", "remove", "--consumer", "biling", "--reason", "x", "--yes"}), "4 unknown_consumer");
  EXPECT_EQ(Refusal({"inbox", "remove", "--consumer", "billing", "--yes"}), "2 bad_usage");
  EXPECT_EQ(place_->Text("select count(*) from {p}audit"), "0");
}

TEST_P(InboxPositions, AConsumerIsRemovedWithEverything) {
  if (!is_sqlite()) place_->Execute("insert into {p}consumer_grant (consumer, role) values ('billing', 'x')");
  EXPECT_EQ(Refusal({"inbox", "remove", "--consumer", "billing", "--reason", "x"}), "6 approval_missing");
  EXPECT_THAT(Run({"inbox", "remove", "--consumer", "billing", "--reason", "x", "--dry-run"}).out,
              HasSubstr("consumer billing would be removed"));
  const std::string table = is_sqlite() ? "{p}inbox_partition" : "{p}inbox_progress";
  place_->Execute("update " + table + (is_sqlite() ? " set clean = 0" : " set clean = false"));
  EXPECT_EQ(Refusal({"inbox", "remove", "--consumer", "billing", "--reason", "x", "--yes"}), "6 consumer_attached");
  EXPECT_EQ(Json({"inbox", "position"})["positions"].size(), 3U);

  const json removed =
      Json({"inbox", "remove", "--consumer", "billing", "--reason", "over", "--although-attached", "--yes"});
  EXPECT_EQ(removed["removed_rows"], 4);
  EXPECT_EQ(removed["dry_run"], false);
  EXPECT_EQ(LastRecord(), "ann inbox.remove billing: over");
  EXPECT_TRUE(Json({"inbox", "status"})["consumers"].empty());
  EXPECT_EQ(place_->Text("select count(*) from {p}inbox_parked"), "0");
  if (!is_sqlite()) {
    EXPECT_EQ(place_->Text("select count(*) from {p}consumer_grant"), "0");
  }
}

TEST_P(InboxPositions, AnEventThatIsTooOldIsRetriedOnlyWhenItMayBeAppliedTwice) {
  EXPECT_EQ(Refusal({"inbox", "retry", kOld, "--reason", "x"}), "6 too_old");
  EXPECT_EQ(Refusal({"inbox", "retry", "--all", "--may-apply-twice", "--reason", "x", "--yes"}), "2 bad_usage");
  EXPECT_EQ(Json({"inbox", "retry", "--all", "--reason", "x", "--yes"})["changed"], 0);
  EXPECT_EQ(Json({"inbox", "retry", kOld, "--may-apply-twice", "--reason", "effect is missing"})["changed"], 1);
  EXPECT_EQ(place_->Text("select state from {p}inbox_parked"), "FAILED");
  EXPECT_EQ(LastRecord(), fmt::format("ann inbox.retry {} on billing: effect is missing", kOld));
}

}  // namespace
}  // namespace sealane::testing
