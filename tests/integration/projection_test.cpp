// Protects projections: one upsert that both databases take, that never goes back to an older version, and that takes
// names for names and values for values, whatever characters they are made of.

#include "sealane/projection.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/inbox_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using ::testing::ElementsAre;

class Projection : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    Execute(
        "CREATE TABLE order_view (order_id TEXT PRIMARY KEY, status TEXT, total BIGINT, note TEXT DEFAULT 'none',"
        " source_event_id TEXT, source_version BIGINT)");
  }

  HandlerTransaction& tx() { return *batch_; }
  void Execute(const std::string& sql) { ValueOrThrow(batch_->Execute(sql)); }
  /// Rows as text, `-` for null.
  std::vector<std::string> Rows(const std::string& sql) {
    std::vector<std::string> lines;
    for (const auto& row : ValueOrThrow(batch_->Query(sql))) {
      std::string line;
      for (const auto& field : row) line += (line.empty() ? "" : "|") + field.value_or("-");
      lines.push_back(line);
    }
    return lines;
  }
  std::vector<std::string> Orders() {
    return Rows("SELECT order_id, status, total, note, source_version FROM order_view ORDER BY order_id");
  }
  static Envelope EventOf(std::int64_t version) { return *VersionOf("o-1", version, version).envelope; }

  Result<bool> TrySet(std::string status, const Envelope& event) {
    return Project(tx(),
                   {.table = "order_view",
                    .key = {{"order_id", event.aggregate.id}},
                    .set = {{"status", std::move(status)}, {"total", std::int64_t{100} * *event.aggregate.version}}},
                   event);
  }
  bool Set(std::string status, const Envelope& event) { return ValueOrThrow(TrySet(std::move(status), event)); }

  static void ExpectMisuse(const Result<bool>& result) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().kind(), ErrorKind::kMisuse);
    EXPECT_EQ(result.error().code(), "invalid_projection");
    EXPECT_FALSE(result.error().hint().empty());
  }

 private:
  std::unique_ptr<InboxFixture> fixture_ = MakeInboxFixture(GetParam());
  InboxSeat seat_{*fixture_, "billing", InboxMode::kRecord};
  std::unique_ptr<InboxBatch> batch_ = seat_.Open({DeliveryOf("a", 0)});
};

INSTANTIATE_TEST_SUITE_P(Store, Projection, ::testing::Values("sqlite", "postgres"),
                         [](const auto& test) { return test.param; });

TEST_P(Projection, InsertsThenUpdatesAndKeepsColumnsThatAreNotNamed) {
  const Envelope first = EventOf(1);
  EXPECT_TRUE(Set("placed", first));
  EXPECT_THAT(Orders(), ElementsAre("o-1|placed|100|none|1"));
  Execute("UPDATE order_view SET note = 'fragile'");
  const Envelope second = EventOf(2);
  EXPECT_TRUE(Set("paid", second));
  EXPECT_THAT(Orders(), ElementsAre("o-1|paid|200|fragile|2"));
  EXPECT_THAT(Rows("SELECT source_event_id FROM order_view"), ElementsAre(second.id.ToString()));
}

TEST_P(Projection, NeverGoesBackAndIsTheSameWhenAppliedAgain) {
  const Envelope third = EventOf(3);
  EXPECT_TRUE(Set("shipped", third));
  EXPECT_FALSE(Set("placed", EventOf(1)));
  EXPECT_FALSE(Set("paid", EventOf(2)));
  EXPECT_FALSE(Set("shipped", third));
  EXPECT_THAT(Orders(), ElementsAre("o-1|shipped|300|none|3"));
  EXPECT_THAT(Rows("SELECT source_event_id FROM order_view"), ElementsAre(third.id.ToString()));
}

TEST_P(Projection, ARowOfUnknownOriginIsOlderThanAnyEvent) {
  Execute("INSERT INTO order_view (order_id, status) VALUES ('o-1', 'imported')");
  EXPECT_TRUE(Set("placed", EventOf(1)));
  EXPECT_THAT(Orders(), ElementsAre("o-1|placed|100|none|1"));
}

TEST_P(Projection, NullsNumbersBytesAndHostileTextAreValues) {
  Execute(std::string("CREATE TABLE doc (id BIGINT PRIMARY KEY, body ") +
          (GetParam() == "postgres" ? "BYTEA" : "BLOB") +
          ", title TEXT, gone TEXT, source_event_id TEXT, source_version BIGINT)");
  const std::string title = "'; DROP TABLE doc; -- $1 ?1 \"x\"";
  EXPECT_TRUE(ValueOrThrow(
      Project(tx(),
              {.table = "doc",
               .key = {{"id", std::int64_t{7}}},
               .set = {{"body", SqlBytes{std::string("\0\xff", 2)}}, {"title", title}, {"gone", std::monostate{}}}},
              EventOf(1))));
  EXPECT_THAT(Rows("SELECT id, title, gone, length(body) FROM doc"), ElementsAre("7|" + title + "|-|2"));
}

TEST_P(Projection, AKeyMayHaveSeveralColumnsAndNothingElseNeedBeSet) {
  Execute(
      "CREATE TABLE seen (tenant TEXT, id TEXT, source_event_id TEXT, source_version BIGINT,"
      " PRIMARY KEY (tenant, id))");
  const ProjectedRow row{.table = "seen", .key = {{"tenant", "t1"}, {"id", "o-1"}}, .set = {}};
  EXPECT_TRUE(ValueOrThrow(Project(tx(), row, EventOf(1))));
  EXPECT_FALSE(ValueOrThrow(Project(tx(), row, EventOf(1))));
  EXPECT_TRUE(ValueOrThrow(Project(tx(), row, EventOf(2))));
  EXPECT_THAT(Rows("SELECT tenant, id, source_version FROM seen"), ElementsAre("t1|o-1|2"));
}

TEST_P(Projection, ManyColumnsKeepTheirValues) {
  std::string columns;
  ProjectedRow row{.table = "wide", .key = {{"id", "a"}}, .set = {}};
  for (int i = 0; i < 30; ++i) {
    columns += "c" + std::to_string(i) + " BIGINT, ";
    row.set.emplace_back("c" + std::to_string(i), std::int64_t{i});
  }
  Execute("CREATE TABLE wide (id TEXT PRIMARY KEY, " + columns + "source_event_id TEXT, source_version BIGINT)");
  EXPECT_TRUE(ValueOrThrow(Project(tx(), row, EventOf(1))));
  EXPECT_THAT(Rows("SELECT c0, c9, c10, c29, source_version FROM wide"), ElementsAre("0|9|10|29|1"));
}

TEST_P(Projection, HostileNamesAreNames) {
  const std::string table = "weird \"table\"; DROP TABLE order_view --";
  const std::string column = "a\"b = 1, \"status";
  const std::string quoted_table = "\"weird \"\"table\"\"; DROP TABLE order_view --\"";
  const std::string quoted_column = "\"a\"\"b = 1, \"\"status\"";
  Execute("CREATE TABLE " + quoted_table + " (\"Id\" TEXT PRIMARY KEY, " + quoted_column +
          " TEXT, source_event_id TEXT, source_version BIGINT)");
  EXPECT_TRUE(
      ValueOrThrow(Project(tx(), {.table = table, .key = {{"Id", "a"}}, .set = {{column, "kept"}}}, EventOf(1))));
  EXPECT_THAT(Rows("SELECT " + quoted_column + " FROM " + quoted_table), ElementsAre("kept"));
  EXPECT_THAT(Orders(), ElementsAre());
}

TEST_P(Projection, ATableMayBeNamedWithItsSchema) {
  const std::string schema = GetParam() == "postgres" ? "public" : "main";
  EXPECT_TRUE(ValueOrThrow(Project(
      tx(), {.table = schema + ".order_view", .key = {{"order_id", "o-1"}}, .set = {{"status", "x"}}}, EventOf(1))));
  EXPECT_THAT(Orders(), ElementsAre("o-1|x|-|none|1"));
}

TEST_P(Projection, WhatIsNoNameOrNoRowIsRefusedBeforeAnythingIsWritten) {
  const Envelope event = EventOf(1);
  const std::vector<std::string> bad = {"", std::string("a\0b", 3), std::string(64, 'x'), "\xff"};
  for (const std::string& name : bad) {
    ExpectMisuse(Project(tx(), {.table = name, .key = {{"order_id", "a"}}, .set = {}}, event));
    ExpectMisuse(Project(tx(), {.table = "order_view", .key = {{name, "a"}}, .set = {}}, event));
    ExpectMisuse(Project(tx(), {.table = "order_view", .key = {{"order_id", "a"}}, .set = {{name, "x"}}}, event));
  }
  ExpectMisuse(Project(tx(), {.table = "public.", .key = {{"order_id", "a"}}, .set = {}}, event));
  ExpectMisuse(Project(tx(), {.table = "order_view", .key = {}, .set = {{"status", "x"}}}, event));
  ExpectMisuse(Project(tx(), {.table = "order_view", .key = {{"order_id", "a"}}, .set = {{"order_id", "b"}}}, event));
  ExpectMisuse(
      Project(tx(), {.table = "order_view", .key = {{"order_id", "a"}}, .set = {{"source_version", std::int64_t{9}}}},
              event));
  // The transaction is unharmed.
  EXPECT_TRUE(Set("placed", event));
}

TEST_P(Projection, AnEventWithoutAVersionIsRejected) {
  Envelope event = EventOf(1);
  event.aggregate.version.reset();
  const auto projected =
      Project(tx(), {.table = "order_view", .key = {{"order_id", "o-1"}}, .set = {{"status", "x"}}}, event);
  ASSERT_FALSE(projected.has_value());
  EXPECT_EQ(projected.error().kind(), ErrorKind::kRejected);
  EXPECT_EQ(projected.error().code(), "version_missing");
  EXPECT_THAT(Orders(), ElementsAre());
}

TEST_P(Projection, ATableWithoutTheConstraintIsAnError) {
  Execute("CREATE TABLE loose (id TEXT, source_event_id TEXT, source_version BIGINT)");
  const auto projected = Project(tx(), {.table = "loose", .key = {{"id", "a"}}, .set = {}}, EventOf(1));
  EXPECT_FALSE(projected.has_value());
}

}  // namespace
}  // namespace sealane
