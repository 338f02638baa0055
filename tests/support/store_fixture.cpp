#include "support/store_fixture.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include "memory/memory_store.hpp"
#include "postgres/postgres_store.hpp"
#include "sqlite/sqlite_store.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using std::chrono::seconds;

class MemoryFixture final : public StoreFixture {
 public:
  std::unique_ptr<OutboxStore> Open() override { return ValueOrThrow(memory::OpenOutboxStore(database_)); }
  void LetTimePass(seconds duration) override { clock_.Advance(duration); }
  bool goes_on_after_errors() const override { return true; }
  bool has_one_writer() const override { return false; }

 private:
  ManualClock clock_;
  // Generous, so that slow machines never see a lock given up.
  std::shared_ptr<memory::Database> database_ = memory::MakeDatabase(clock_, seconds{60});
};

class SqliteFixture final : public StoreFixture {
 public:
  SqliteFixture() { file_.Migrate(); }
  std::unique_ptr<OutboxStore> Open() override { return OpenWith(seconds{60}); }
  std::unique_ptr<OutboxStore> OpenImpatient() override { return OpenWith(seconds{0}); }
  void LetTimePass(seconds duration) override {
    const std::int64_t by = std::chrono::microseconds(duration).count();
    SqliteHandle(file_.path())
        .Execute(
            fmt::format("UPDATE sealane_outbox_unique SET created_at = created_at - {0};"
                        "UPDATE sealane_idempotency SET claimed_at = claimed_at - {0}, expires_at = expires_at - {0},"
                        " patience_until = patience_until - {0}, completed_at = completed_at - {0}",
                        by));
  }
  bool goes_on_after_errors() const override { return true; }
  bool has_one_writer() const override { return true; }

 private:
  std::unique_ptr<OutboxStore> OpenWith(std::chrono::milliseconds busy_timeout) const {
    return ValueOrThrow(sqlite::OpenOutboxStore({.path = file_.path(), .busy_timeout = busy_timeout}));
  }

  SqliteFile file_;
};

class PostgresFixture final : public StoreFixture {
 public:
  std::unique_ptr<OutboxStore> Open() override {
    return ValueOrThrow(postgres::OpenOutboxStore(OptionsOf(database_)));
  }
  void LetTimePass(seconds duration) override {
    Execute(
        fmt::format("UPDATE sealane.outbox_unique SET created_at = created_at - interval '{0} seconds';"
                    "UPDATE sealane.idempotency SET claimed_at = claimed_at - interval '{0} seconds',"
                    " expires_at = expires_at - interval '{0} seconds',"
                    " patience_until = patience_until - interval '{0} seconds',"
                    " completed_at = completed_at - interval '{0} seconds'",
                    duration.count()));
  }
  bool goes_on_after_errors() const override { return false; }
  bool has_one_writer() const override { return false; }

 private:
  static postgres::Options OptionsOf(const ScratchDatabase& database) {
    postgres::Options options;
    options.url = database.url();
    return options;
  }
  void Execute(const std::string& sql) const {
    PGconn* const connection = PQconnectdb(database_.url().c_str());
    PGresult* const result = PQexec(connection, sql.c_str());
    EXPECT_EQ(PQresultStatus(result), PGRES_COMMAND_OK) << sql << ": " << PQerrorMessage(connection);
    PQclear(result);
    PQfinish(connection);
  }

  ScratchDatabase database_{kMigrated};
};

constexpr int kTriesMax = 10'000;

Status TryOnce(OutboxStore& store, const std::function<Status(Transaction&)>& work) {
  SEALANE_ASSIGN_OR_RETURN(const auto transaction, store.Begin());
  SEALANE_RETURN_IF_ERROR(work(*transaction));
  return transaction->Commit();
}

}  // namespace

std::unique_ptr<StoreFixture> MakeStoreFixture(const std::string& kind) {
  if (kind == "memory") return std::make_unique<MemoryFixture>();
  if (kind == "sqlite") return std::make_unique<SqliteFixture>();
  SEALANE_ASSERT(kind == "postgres", "a store fixture is named memory, sqlite or postgres");
  return std::make_unique<PostgresFixture>();
}

void InTransaction(OutboxStore& store, const std::function<Status(Transaction&)>& work) {
  Status status = TryOnce(store, work);
  for (int tries = 1; !status && status.error().kind() == ErrorKind::kConflict && tries < kTriesMax; ++tries) {
    status = TryOnce(store, work);
  }
  EXPECT_TRUE(status.has_value()) << status.error().ToString();
}

std::vector<Appended> AppendAndCommit(OutboxStore& store, const std::vector<NewEntry>& entries) {
  std::vector<Appended> appended;
  InTransaction(store, [&](Transaction& transaction) -> Status {
    SEALANE_ASSIGN_OR_RETURN(appended, transaction.Append(entries));
    return Ok();
  });
  return appended;
}

std::size_t CountEvents(OutboxStore& store) {
  MessageFilter filter;
  filter.limit = MessageFilter::kListMax;
  return ValueOrThrow(store.ListMessages(filter)).size();
}

}  // namespace sealane::testing
