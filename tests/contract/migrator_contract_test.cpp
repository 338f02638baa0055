// What every migrator promises: it may run twice and from several threads and processes at once, touches nothing it
// does not understand, and leaves nothing half done.

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "outbox/migration.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_store.hpp"
#include "sqlite/embedded_migrations.hpp"
#include "sqlite/sqlite_migrator.hpp"
#include "sqlite/sqlite_store.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// An empty database and the programs that migrate it.
class MigratorFixture {
 public:
  virtual ~MigratorFixture() = default;
  virtual std::vector<Migration> Embedded() const = 0;
  /// As a program that carries these scripts.
  virtual std::unique_ptr<Migrator> OpenWith(std::vector<Migration> known) = 0;
  virtual Result<std::unique_ptr<OutboxStore>> OpenStore() = 0;
  virtual Result<std::unique_ptr<InboxStore>> OpenInbox(const std::string& consumer) = 0;
  virtual void Execute(const std::string& sql) = 0;
  virtual std::string migration_table() const = 0;
  /// Where consumers stand, and its first columns: consumer, topic, partition, next_offset.
  virtual std::string position_table() const = 0;
  /// What adds a consumer, as it was from the beginning.
  virtual std::string add_consumer() const = 0;
};

class SqliteMigratorFixture final : public MigratorFixture {
 public:
  std::vector<Migration> Embedded() const override { return sqlite::EmbeddedMigrations(); }
  std::unique_ptr<Migrator> OpenWith(std::vector<Migration> known) override {
    return std::make_unique<sqlite::SqliteMigrator>(Options(), std::move(known));
  }
  Result<std::unique_ptr<OutboxStore>> OpenStore() override { return sqlite::OpenOutboxStore(Options()); }
  Result<std::unique_ptr<InboxStore>> OpenInbox(const std::string& consumer) override {
    return sqlite::OpenInboxStore(Options(), consumer, InboxMode::kRecord);
  }
  void Execute(const std::string& sql) override { SqliteHandle(file_.path()).Execute(sql); }
  std::string migration_table() const override { return "sealane_migration"; }
  std::string position_table() const override { return "sealane_inbox_partition"; }
  std::string add_consumer() const override {
    return "INSERT INTO sealane_inbox_consumer (consumer, mode) VALUES ('billing', 'record')";
  }

 private:
  sqlite::Options Options() const { return {.path = file_.path(), .busy_timeout = std::chrono::seconds{60}}; }
  SqliteFile file_;
};

class PostgresMigratorFixture final : public MigratorFixture {
 public:
  std::vector<Migration> Embedded() const override { return postgres::EmbeddedMigrations(); }
  std::unique_ptr<Migrator> OpenWith(std::vector<Migration> known) override {
    return std::make_unique<postgres::PostgresMigrator>(ValueOrThrow(postgres::Connection::Open(Options())),
                                                        Options(), std::move(known));
  }
  Result<std::unique_ptr<OutboxStore>> OpenStore() override { return postgres::OpenOutboxStore(Options()); }
  Result<std::unique_ptr<InboxStore>> OpenInbox(const std::string& consumer) override {
    return postgres::OpenInboxStore(Options(), consumer, InboxMode::kRecord);
  }
  void Execute(const std::string& sql) override { PgSession(database_.url()).Exec(sql); }
  std::string migration_table() const override { return "sealane.migration"; }
  std::string position_table() const override { return "sealane.inbox_progress"; }
  std::string add_consumer() const override {
    return "INSERT INTO sealane.inbox_consumer (name, mode) VALUES ('billing', 'record')";
  }

 private:
  postgres::Options Options() const {
    postgres::Options options;
    options.url = database_.url();
    return options;
  }
  ScratchDatabase database_;
};

class MigratorContract : public ::testing::TestWithParam<std::string> {
 protected:
  MigratorContract() {
    if (GetParam() == "sqlite") fixture_ = std::make_unique<SqliteMigratorFixture>();
    if (GetParam() == "postgres") fixture_ = std::make_unique<PostgresMigratorFixture>();
  }
  MigratorFixture& fixture() { return *fixture_; }
  std::unique_ptr<Migrator> Open() { return fixture_->OpenWith(fixture_->Embedded()); }
  int Known() const { return fixture_->Embedded().back().number; }
  /// The scripts of a program that is one release ahead.
  std::vector<Migration> NextRelease(std::string_view script) const {
    std::vector<Migration> scripts = fixture_->Embedded();
    scripts.push_back({Known() + 1, "future", script});
    return scripts;
  }

 private:
  std::unique_ptr<MigratorFixture> fixture_;
};

INSTANTIATE_TEST_SUITE_P(Store, MigratorContract, ::testing::Values("sqlite", "postgres"),
                         [](const auto& test) { return test.param; });

TEST_P(MigratorContract, ExaminesAnEmptyDatabaseWithoutTouchingIt) {
  for (int i = 0; i < 2; ++i) {
    const SchemaState state = ValueOrThrow(Open()->Examine());
    EXPECT_EQ(state.installed, 0);
    EXPECT_EQ(state.known, Known());
    EXPECT_THAT(state.applied, IsEmpty());
    EXPECT_EQ(state.pending.size(), fixture().Embedded().size());
  }
}

TEST_P(MigratorContract, InstallsEverythingPending) {
  const auto applied = ValueOrThrow(Open()->Up());
  ASSERT_EQ(applied.size(), fixture().Embedded().size());
  EXPECT_EQ(applied.front().number, 1);
  EXPECT_EQ(applied.front().name, "outbox");
  EXPECT_GT(applied.front().applied_at, Timestamp{std::chrono::seconds{1'700'000'000}});

  const SchemaState state = ValueOrThrow(Open()->Examine());
  EXPECT_EQ(state.installed, state.known);
  EXPECT_EQ(state.applied.size(), applied.size());
  EXPECT_THAT(state.pending, IsEmpty());
  EXPECT_TRUE(fixture().OpenStore().has_value());
}

TEST_P(MigratorContract, DoesNothingTheSecondTime) {
  const auto migrator = Open();
  ValueOrThrow(migrator->Up());
  EXPECT_THAT(ValueOrThrow(migrator->Up()), IsEmpty());
  EXPECT_THAT(ValueOrThrow(Open()->Up()), IsEmpty());
}

TEST_P(MigratorContract, BringsAnOlderSchemaUpToDate) {
  ValueOrThrow(Open()->Up());
  const auto next = fixture().OpenWith(NextRelease("CREATE TABLE sealane_future (n INTEGER);"));
  EXPECT_EQ(ValueOrThrow(next->Examine()).pending.size(), 1U);
  const auto applied = ValueOrThrow(next->Up());
  ASSERT_EQ(applied.size(), 1U);
  EXPECT_EQ(applied.front().number, Known() + 1);
  EXPECT_EQ(applied.front().name, "future");
}

TEST_P(MigratorContract, PartitionsFromBeforePositionsFollowTheirGroup) {
  std::vector<Migration> before = fixture().Embedded();
  std::erase_if(before, [](const Migration& migration) { return migration.number >= 9; });
  ValueOrThrow(fixture().OpenWith(before)->Up());
  fixture().Execute(fixture().add_consumer());
  fixture().Execute("INSERT INTO " + fixture().position_table() +
                    " (consumer, topic, partition, next_offset) VALUES ('billing', 'orders', 0, NULL),"
                    " ('billing', 'orders', 1, 5)");
  ValueOrThrow(Open()->Up());

  const auto store = ValueOrThrow(fixture().OpenInbox("billing"));
  const std::vector<Partition> partitions = {{"orders", 0}, {"orders", 1}, {"orders", 2}};
  const auto attached = ValueOrThrow(store->Attach(partitions, 10));
  EXPECT_TRUE(attached.at(0).follows_group);
  EXPECT_EQ(attached.at(0).next_offset, std::nullopt);
  EXPECT_FALSE(attached.at(1).follows_group) << "it has a position";
  EXPECT_EQ(attached.at(1).next_offset, 5);
  EXPECT_FALSE(attached.at(2).follows_group) << "it is new";
  ValueOrThrow(store->Place(attached.at(0), 7, "topic-1"));
  EXPECT_FALSE(ValueOrThrow(store->Attach(partitions, 10)).at(0).follows_group) << "it has one now";
}

TEST_P(MigratorContract, OneOfSeveralThreadsDoesTheWork) {
  std::vector<std::size_t> applied(4);
  std::vector<std::thread> threads;
  for (std::size_t& mine : applied) {
    threads.emplace_back([&mine, this] { mine = ValueOrThrow(Open()->Up()).size(); });
  }
  for (std::thread& thread : threads) thread.join();
  std::ranges::sort(applied);
  EXPECT_EQ(applied, (std::vector<std::size_t>{0, 0, 0, fixture().Embedded().size()}));
}

TEST_P(MigratorContract, OneOfSeveralProcessesDoesTheWork) {
  constexpr int kFailed = 100;
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto applied = Open()->Up();
      if (!applied) std::fprintf(stderr, "%s\n", applied.error().ToString().c_str());
      ::_exit(applied ? static_cast<int>(applied->size()) : kFailed);
    }
    children.push_back(child);
  }
  std::vector<int> results;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    results.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : kFailed);
  }
  std::ranges::sort(results);
  EXPECT_EQ(results, (std::vector<int>{0, 0, 0, static_cast<int>(fixture().Embedded().size())}));
}

TEST_P(MigratorContract, LeavesANewerSchemaAlone) {
  ValueOrThrow(fixture().OpenWith(NextRelease("CREATE TABLE sealane_future (n INTEGER);"))->Up());

  const SchemaState state = ValueOrThrow(Open()->Examine());
  EXPECT_EQ(state.installed, Known() + 1);
  EXPECT_EQ(state.known, Known());
  const auto up = Open()->Up();
  ASSERT_FALSE(up.has_value());
  EXPECT_EQ(up.error().kind(), ErrorKind::kMisconfigured);
  EXPECT_EQ(up.error().code(), "schema_newer");
  EXPECT_EQ(fixture().OpenStore().error().code(), "schema_newer");
}

TEST_P(MigratorContract, RefusesASchemaMadeFromOtherScripts) {
  ValueOrThrow(Open()->Up());
  fixture().Execute("UPDATE " + fixture().migration_table() + " SET checksum = 'other'");
  const auto up = Open()->Up();
  ASSERT_FALSE(up.has_value());
  EXPECT_EQ(up.error().kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(up.error().code(), "schema_changed");
  EXPECT_THAT(up.error().message(), HasSubstr("outbox"));
}

TEST_P(MigratorContract, LeavesNothingOfAMigrationThatFails) {
  const auto broken = fixture().OpenWith(NextRelease("CREATE TABLE sealane_future (n INTEGER); SELECT broken;"));
  const auto up = broken->Up();
  ASSERT_FALSE(up.has_value());
  EXPECT_THAT(up.error().ToString(), HasSubstr("future"));
  EXPECT_EQ(ValueOrThrow(broken->Examine()).installed, 0);
  EXPECT_EQ(ValueOrThrow(Open()->Up()).size(), fixture().Embedded().size());
}

TEST_P(MigratorContract, AStoreIsNotOpenedWithoutItsSchema) {
  fixture().Execute("CREATE TABLE orders (id INTEGER)");
  const auto store = fixture().OpenStore();
  ASSERT_FALSE(store.has_value());
  EXPECT_EQ(store.error().kind(), ErrorKind::kMisconfigured);
  EXPECT_EQ(store.error().code(), "schema_missing");
  EXPECT_THAT(store.error().hint(), HasSubstr("sealane migrate up"));
}

TEST_P(MigratorContract, RendersSqlThatCanBeRunByHand) {
  const std::string sql = Open()->Render(fixture().Embedded().front());
  std::string lower = sql;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  EXPECT_THAT(lower, HasSubstr("create table"));
  EXPECT_THAT(lower, HasSubstr("create view"));
  for (const char* placeholder : {"{schema}", "{lanes}", "{writer}", "{relay}", "{operator}", "{create_roles}"}) {
    EXPECT_THAT(sql.substr(sql.find("\n\n")), Not(HasSubstr(placeholder)));
  }
}

}  // namespace
}  // namespace sealane
