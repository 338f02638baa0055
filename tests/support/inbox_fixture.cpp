#include "support/inbox_fixture.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/sha256.hpp"
#include "memory/database.hpp"
#include "memory/inbox_store.hpp"
#include "postgres/postgres_store.hpp"
#include "sqlite/sqlite_store.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sample_events.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using std::chrono::seconds;

class MemoryInboxFixture final : public InboxFixture {
 public:
  Result<std::unique_ptr<InboxStore>> TryOpen(const std::string& consumer, InboxMode mode) override {
    return memory::OpenInboxStore(database_, consumer, mode, clock_);
  }
  std::unique_ptr<OutboxStore> OpenOutbox() override { return ValueOrThrow(memory::OpenOutboxStore(database_)); }
  std::unique_ptr<InboxDesk> OpenDesk() override { return ValueOrThrow(memory::OpenInboxDesk(database_)); }
  std::unique_ptr<DeadLetters> OpenDeadLetters() override { return ValueOrThrow(memory::OpenDeadLetters(database_)); }
  Status Affect(HandlerTransaction& transaction, const std::string& what) override {
    const SqlValue value = what;
    SEALANE_RETURN_IF_ERROR(transaction.Execute("INSERT INTO effect (what) VALUES (?1)", {&value, 1}));
    return Ok();
  }
  std::vector<std::string> Effects() override {
    std::vector<std::string> effects;
    for (const memory::ExecutedStatement& statement : memory::ExecutedStatements(*database_)) {
      effects.push_back(std::get<std::string>(statement.values.at(0)));
    }
    return effects;
  }
  void LetTimePass(seconds duration) override { clock_.Advance(duration); }
  void Skip(const std::string& consumer, const EventId& id) override { memory::SkipParked(*database_, consumer, id); }
  void SetResume(const std::string& consumer, const Partition& partition, const std::string& from) override {
    database_->WithInbox([&](memory::InboxTables& tables) {
      tables.consumers.at(consumer).partitions.at(partition).resume = ParseResumePoint(from);
    });
  }
  std::string Parameter(int number) const override { return fmt::format("?{}", number); }

 private:
  ManualClock clock_;
  // Generous, so that slow machines never see a lock given up.
  std::shared_ptr<memory::Database> database_ = memory::MakeDatabase(clock_, seconds{60});
};

class SqliteInboxFixture final : public InboxFixture {
 public:
  SqliteInboxFixture() {
    file_.Migrate();
    SqliteHandle(file_.path()).Execute("CREATE TABLE effect (id INTEGER PRIMARY KEY, what TEXT NOT NULL) STRICT");
  }
  Result<std::unique_ptr<InboxStore>> TryOpen(const std::string& consumer, InboxMode mode) override {
    return sqlite::OpenInboxStore(options(), consumer, mode);
  }
  std::unique_ptr<OutboxStore> OpenOutbox() override { return ValueOrThrow(sqlite::OpenOutboxStore(options())); }
  std::unique_ptr<InboxDesk> OpenDesk() override { return ValueOrThrow(sqlite::OpenInboxDesk(options())); }
  std::unique_ptr<DeadLetters> OpenDeadLetters() override { return ValueOrThrow(sqlite::OpenDeadLetters(options())); }
  Status Affect(HandlerTransaction& transaction, const std::string& what) override {
    const SqlValue value = what;
    SEALANE_RETURN_IF_ERROR(transaction.Execute("INSERT INTO effect (what) VALUES (?1)", {&value, 1}));
    return Ok();
  }
  std::vector<std::string> Effects() override {
    const SqliteHandle handle(file_.path());
    std::vector<std::string> effects;
    for (std::int64_t i = 0, n = handle.Number("SELECT count(*) FROM effect"); i < n; ++i) {
      effects.push_back(handle.Text(fmt::format("SELECT what FROM effect ORDER BY id LIMIT 1 OFFSET {}", i)));
    }
    return effects;
  }
  void LetTimePass(seconds duration) override {
    SqliteHandle(file_.path())
        .Execute(fmt::format("UPDATE sealane_inbox_parked SET next_attempt_at = next_attempt_at - {0},"
                             " gap_until = gap_until - {0}, claimed_until = claimed_until - {0},"
                             " parked_at = parked_at - {0}, first_failed_at = first_failed_at - {0},"
                             " last_failed_at = last_failed_at - {0}",
                             std::chrono::microseconds(duration).count()));
  }
  void Skip(const std::string& consumer, const EventId& id) override {
    for (const char* const table : {"sealane_inbox_parked", "sealane_inbox"}) {
      SqliteHandle(file_.path())
          .Execute(fmt::format("UPDATE {} SET state = 'SKIPPED' WHERE consumer = '{}' AND event_id = '{}'", table,
                               consumer, id.ToString()));
    }
  }
  void SetResume(const std::string& consumer, const Partition& partition, const std::string& from) override {
    SqliteHandle(file_.path())
        .Execute(fmt::format("UPDATE sealane_inbox_partition SET resume_from = '{}'"
                             " WHERE consumer = '{}' AND topic = '{}' AND partition = {}",
                             from, consumer, partition.topic, partition.number));
  }
  std::string Parameter(int number) const override { return fmt::format("?{}", number); }

 private:
  sqlite::Options options() const { return {.path = file_.path(), .busy_timeout = seconds{60}}; }

  SqliteFile file_;
};

class PostgresInboxFixture final : public InboxFixture {
 public:
  PostgresInboxFixture() {
    PgSession(database_.url()).Exec("CREATE TABLE effect (id bigserial PRIMARY KEY, what text NOT NULL)");
  }
  Result<std::unique_ptr<InboxStore>> TryOpen(const std::string& consumer, InboxMode mode) override {
    return postgres::OpenInboxStore(options(), consumer, mode);
  }
  std::unique_ptr<OutboxStore> OpenOutbox() override { return ValueOrThrow(postgres::OpenOutboxStore(options())); }
  std::unique_ptr<InboxDesk> OpenDesk() override { return ValueOrThrow(postgres::OpenInboxDesk(options())); }
  std::unique_ptr<DeadLetters> OpenDeadLetters() override {
    return ValueOrThrow(postgres::OpenDeadLetters(options()));
  }
  Status Affect(HandlerTransaction& transaction, const std::string& what) override {
    const SqlValue value = what;
    SEALANE_RETURN_IF_ERROR(transaction.Execute("INSERT INTO effect (what) VALUES ($1)", {&value, 1}));
    return Ok();
  }
  std::vector<std::string> Effects() override {
    std::vector<std::string> effects;
    for (const auto& row : PgSession(database_.url()).Query("SELECT what FROM effect ORDER BY id")) {
      effects.push_back(row.at(0));
    }
    return effects;
  }
  void LetTimePass(seconds duration) override {
    PgSession(database_.url())
        .Exec(
            fmt::format("UPDATE sealane.inbox_parked SET next_attempt_at = next_attempt_at - interval '{0} seconds',"
                        " gap_until = gap_until - interval '{0} seconds',"
                        " claimed_until = claimed_until - interval '{0} seconds',"
                        " parked_at = parked_at - interval '{0} seconds',"
                        " first_failed_at = first_failed_at - interval '{0} seconds',"
                        " last_failed_at = last_failed_at - interval '{0} seconds'",
                        duration.count()));
  }
  void Skip(const std::string& consumer, const EventId& id) override {
    for (const char* const table : {"sealane.inbox_parked", "sealane.inbox"}) {
      PgSession(database_.url())
          .Exec(fmt::format("UPDATE {} SET state = 'SKIPPED' WHERE consumer = '{}' AND event_id = '{}'", table,
                            consumer, id.ToString()));
    }
  }
  void SetResume(const std::string& consumer, const Partition& partition, const std::string& from) override {
    PgSession(database_.url())
        .Exec(fmt::format("UPDATE sealane.inbox_progress SET resume_from = '{}'"
                          " WHERE consumer = '{}' AND topic = '{}' AND partition = {}",
                          from, consumer, partition.topic, partition.number));
  }
  std::string Parameter(int number) const override { return fmt::format("${}", number); }

 private:
  postgres::Options options() const {
    postgres::Options options;
    options.url = database_.url();
    return options;
  }

  ScratchDatabase database_{kMigrated};
};

/// Calendar time of the events, far from any clock of a test.
constexpr Timestamp kFiledAt{seconds{1'600'000'000}};

}  // namespace

std::unique_ptr<InboxFixture> MakeInboxFixture(const std::string& kind) {
  if (kind == "memory") return std::make_unique<MemoryInboxFixture>();
  if (kind == "sqlite") return std::make_unique<SqliteInboxFixture>();
  SEALANE_ASSERT(kind == "postgres", "an inbox fixture is named memory, sqlite or postgres");
  return std::make_unique<PostgresInboxFixture>();
}

std::vector<std::string> InboxStores() {
  return {"memory", "sqlite", "postgres"};
}

Arrival Delivery::arrival() const {
  return {&message, envelope ? &*envelope : nullptr, id, hash, filed_at, unit};
}

Delivery DeliveryOf(std::string_view unit, std::int64_t offset) {
  Delivery delivery;
  delivery.envelope = SampleEntry(unit).envelope;
  delivery.id = delivery.envelope->id;
  delivery.hash = delivery.envelope->payload_hash;
  delivery.filed_at = kFiledAt + seconds{offset};
  delivery.unit = unit;
  delivery.message.partition = {"orders", 0};
  delivery.message.offset = offset;
  delivery.message.published_at = kFiledAt + seconds{offset} + std::chrono::milliseconds{5};
  delivery.message.key = unit;
  delivery.message.value = ToJson(*delivery.envelope);
  delivery.message.headers = {{"sealane-id", delivery.id.ToString()}};
  return delivery;
}

Delivery VersionOf(std::string_view unit, std::int64_t version, std::int64_t offset) {
  Delivery delivery = DeliveryOf(unit, offset);
  delivery.envelope->aggregate = {"order", std::string(unit), version};
  delivery.message.value = ToJson(*delivery.envelope);
  return delivery;
}

Delivery UnreadableDelivery(std::string_view unit, std::int64_t offset) {
  Delivery delivery = DeliveryOf(unit, offset);
  delivery.envelope.reset();
  delivery.message.key = std::string("\x00\xff key\x00", 7);
  delivery.message.value = std::string("\xfe\x00 not an event \n\xc3", 18);
  delivery.message.headers = {
      {"twice", "1"}, {"twice", ""}, {"", "no name"}, {"binary\xff", std::string("\x00\x01\x00", 3)}, {"twice", "1"}};
  delivery.hash = Sha256(delivery.message.value);
  return delivery;
}

Delivery Again(Delivery delivery, std::int64_t offset) {
  delivery.message.offset = offset;
  return delivery;
}

std::vector<Arrival> ArrivalsOf(const std::vector<Delivery>& deliveries) {
  std::vector<Arrival> arrivals;
  for (const Delivery& delivery : deliveries) arrivals.push_back(delivery.arrival());
  return arrivals;
}

Outcome Processed(std::optional<std::int64_t> version_seen) {
  Outcome outcome;
  outcome.kind = Outcome::Kind::kProcessed;
  outcome.version_seen = version_seen;
  return outcome;
}

Outcome Ignored(std::string code) {
  Outcome outcome;
  outcome.kind = Outcome::Kind::kIgnored;
  outcome.code = std::move(code);
  return outcome;
}

namespace {

Outcome Parked(ParkNote note) {
  Outcome outcome;
  outcome.kind = Outcome::Kind::kParked;
  outcome.park = std::move(note);
  return outcome;
}

}  // namespace

Outcome Waits() {
  return Parked({});
}

Outcome WaitsForGap(std::optional<std::chrono::milliseconds> patience) {
  return Parked({InboxState::kGap, 0, patience, "", ""});
}

Outcome Failed(std::int32_t attempts, std::optional<std::chrono::milliseconds> retry_after) {
  return Parked({InboxState::kFailed, attempts, retry_after, "handler_failed", "it said no"});
}

Outcome Died(std::int32_t attempts) {
  return Parked({InboxState::kDead, attempts, std::nullopt, "handler_rejected", "never"});
}

Outcome GivenUp(std::string unit) {
  return Parked({InboxState::kSkipped, 0, std::nullopt, "too_old", "it may have been seen", std::move(unit)});
}

InboxSeat::InboxSeat(InboxFixture& fixture, const std::string& consumer, InboxMode mode)
    : mode_(mode), store_(fixture.Open(consumer, mode)) {
  if (mode_ == InboxMode::kOffsets) Attach();
}

const AttachedPartition& InboxSeat::Attach(std::size_t recent_max) {
  const std::vector<Partition> partitions = {{"orders", 0}};
  attached_ = ValueOrThrow(store_->Attach(partitions, recent_max)).at(0);
  position_ = attached_.next_offset.value_or(0);
  return attached_;
}

Result<std::unique_ptr<InboxBatch>> InboxSeat::TryOpen(const std::vector<Delivery>& deliveries, bool guard_versions) {
  held_ = deliveries;
  const std::vector<Arrival> arrivals = ArrivalsOf(held_);
  BatchRequest request{.arrivals = arrivals, .guard_versions = guard_versions};
  if (mode_ == InboxMode::kOffsets) {
    moving_to_ = position_;
    for (const Delivery& delivery : deliveries) moving_to_ = std::max(moving_to_, delivery.message.offset + 1);
    request.progress = {attached_.partition, attached_.epoch, position_, moving_to_, forget_through_};
  }
  return store_->Open(request);
}

void InboxSeat::Finish(InboxBatch& batch, const std::vector<Outcome>& outcomes) {
  ValueOrThrow(batch.Finish(outcomes));
  position_ = moving_to_;
}

void InboxSeat::Handle(const std::vector<Delivery>& deliveries, const std::vector<Outcome>& outcomes,
                       bool guard_versions) {
  const auto batch = Open(deliveries, guard_versions);
  Finish(*batch, outcomes);
}

Standing InboxSeat::Look(const Delivery& delivery, bool guard_versions) {
  return Open({delivery}, guard_versions)->standings().at(0);
}

std::vector<std::string> InboxSeat::Due(bool by_version, std::size_t limit) {
  return ValueOrThrow(store_->DueUnits(by_version, limit));
}

std::optional<RetryBatch> InboxSeat::Retry(const std::string& unit, bool by_version,
                                           std::chrono::milliseconds patience) {
  return ValueOrThrow(store_->OpenRetry(unit, by_version, patience));
}

EventId InboxSeat::RetryWith(const std::string& unit, const Outcome& outcome, bool by_version) {
  const auto retry = Retry(unit, by_version);
  if (!retry) {
    ADD_FAILURE() << unit << " is not due";
    return {};
  }
  ValueOrThrow(retry->batch->Finish({&outcome, 1}));
  return retry->id;
}

}  // namespace sealane::testing
