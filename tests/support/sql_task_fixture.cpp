#include "support/sql_task_fixture.hpp"

#include <fmt/format.h>

#include "postgres/postgres_store.hpp"
#include "sqlite/sqlite_store.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

class SqliteTaskFixture final : public TaskFixture {
 public:
  SqliteTaskFixture() { file_.Migrate(); }
  std::unique_ptr<TaskStore> Open() override { return ValueOrThrow(sqlite::OpenTaskStore(options())); }
  std::unique_ptr<TaskDesk> OpenDesk() override { return ValueOrThrow(sqlite::OpenTaskDesk(options())); }
  std::unique_ptr<DeadLetters> OpenDeadLetters() override { return ValueOrThrow(sqlite::OpenDeadLetters(options())); }
  std::unique_ptr<OutboxStore> OpenOutbox() override { return ValueOrThrow(sqlite::OpenOutboxStore(options())); }
  void LetTimePass(seconds duration) override {
    SqliteHandle(file_.path())
        .Execute(
            fmt::format("UPDATE sealane_task SET created_at = created_at - {0}, not_before = not_before - {0},"
                        " due_at = due_at - {0}, claimed_until = claimed_until - {0}, ended_at = ended_at - {0};"
                        "UPDATE sealane_task_attempt SET started_at = started_at - {0}, ended_at = ended_at - {0};"
                        "UPDATE sealane_task_outage SET since = since - {0}, next_probe_at = next_probe_at - {0}",
                        microseconds(duration).count()));
  }
  Timestamp Now() const override {
    return Timestamp{microseconds{SqliteHandle(file_.path())
                                      .Number("SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000000"
                                              " + CAST(substr(strftime('%f', 'now'), 4, 3) AS INTEGER) * 1000")}};
  }

 private:
  sqlite::Options options() const { return {.path = file_.path(), .busy_timeout = seconds{60}}; }

  SqliteFile file_;
};

class PostgresTaskFixture final : public TaskFixture {
 public:
  std::unique_ptr<TaskStore> Open() override { return ValueOrThrow(postgres::OpenTaskStore(options())); }
  std::unique_ptr<TaskDesk> OpenDesk() override { return ValueOrThrow(postgres::OpenTaskDesk(options())); }
  std::unique_ptr<DeadLetters> OpenDeadLetters() override {
    return ValueOrThrow(postgres::OpenDeadLetters(options()));
  }
  std::unique_ptr<OutboxStore> OpenOutbox() override { return ValueOrThrow(postgres::OpenOutboxStore(options())); }
  void LetTimePass(seconds duration) override {
    PgSession(database_.url())
        .Exec(fmt::format(
            "UPDATE sealane.task SET created_at = created_at - interval '{0} seconds',"
            " not_before = not_before - interval '{0} seconds', due_at = due_at - interval '{0} seconds',"
            " claimed_until = claimed_until - interval '{0} seconds', ended_at = ended_at - interval '{0} seconds';"
            "UPDATE sealane.task_attempt SET started_at = started_at - interval '{0} seconds',"
            " ended_at = ended_at - interval '{0} seconds';"
            "UPDATE sealane.task_outage SET since = since - interval '{0} seconds',"
            " next_probe_at = next_probe_at - interval '{0} seconds'",
            duration.count()));
  }
  Timestamp Now() const override {
    return Timestamp{microseconds{std::stoll(
        PgSession(database_.url()).Exec("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8"))}};
  }

 private:
  postgres::Options options() const {
    postgres::Options options;
    options.url = database_.url();
    return options;
  }

  ScratchDatabase database_{kMigrated};
};

}  // namespace

std::unique_ptr<TaskFixture> MakeSqliteTaskFixture() {
  return std::make_unique<SqliteTaskFixture>();
}

std::unique_ptr<TaskFixture> MakePostgresTaskFixture() {
  return std::make_unique<PostgresTaskFixture>();
}

}  // namespace sealane::testing
