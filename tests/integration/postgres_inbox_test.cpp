// What is special about the inbox in PostgreSQL: transactions that meet, partitions by day, round trips, connections
// that break. What every inbox promises is in the contract suite.

#include <atomic>
#include <barrier>
#include <future>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/sha256.hpp"
#include "inbox/applier.hpp"
#include "inbox/incoming.hpp"
#include "postgres/call.hpp"
#include "postgres/postgres_store.hpp"
#include "support/eventually.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sample_events.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Known = Standing::Known;

/// A message with everything an Arrival borrows.
struct Letter {
  explicit Letter(std::string_view key, std::int64_t offset = 0, Timestamp filed = SystemClock::Instance().Now())
      : envelope(SampleEntry(key).envelope), unit(key), filed_at(filed) {
    message.partition = {"orders", 0};
    message.offset = offset;
    message.published_at = filed;
    message.key = key;
    message.value = ToJson(envelope);
  }
  Arrival arrival() const { return {&message, &envelope, envelope.id, envelope.payload_hash, filed_at, unit}; }

  ReceivedMessage message;
  Envelope envelope;
  std::string unit;
  Timestamp filed_at;
};

std::vector<Arrival> ArrivalsOf(const std::vector<Letter>& letters) {
  std::vector<Arrival> arrivals;
  for (const Letter& letter : letters) arrivals.push_back(letter.arrival());
  return arrivals;
}

Outcome OutcomeOf(Outcome::Kind kind) {
  Outcome outcome;
  outcome.kind = kind;
  return outcome;
}
const Outcome kProcessed = OutcomeOf(Outcome::Kind::kProcessed);

Outcome Parked(InboxState state, std::optional<milliseconds> retry_after = {}) {
  Outcome outcome = OutcomeOf(Outcome::Kind::kParked);
  outcome.park = {state, 1, retry_after, "handler_failed", "it said no"};
  return outcome;
}

class PostgresInbox : public ::testing::Test {
 protected:
  PostgresInbox() { admin_ = std::make_unique<PgSession>(database_.url()); }

  postgres::Options options(const std::string& name = "sealane") const {
    return {.url = database_.url(), .application_name = name};
  }
  std::unique_ptr<InboxStore> Open(InboxMode mode = InboxMode::kRecord, const std::string& name = "sealane") {
    return ValueOrThrow(postgres::OpenInboxStore(options(name), "billing", mode));
  }
  static std::unique_ptr<InboxBatch> File(InboxStore& store, const Letter& letter, bool guard = false) {
    const Arrival arrival = letter.arrival();
    return ValueOrThrow(store.Open({.arrivals = {&arrival, 1}, .guard_versions = guard}));
  }
  static Known KnownOf(const InboxBatch& batch) { return batch.standings().at(0).known; }
  static Known KnownOf(InboxStore& store, const Letter& letter) { return KnownOf(*File(store, letter)); }
  /// A process id of the server, by the name that the connection gave itself.
  int BackendOf(const std::string& name) {
    return std::stoi(admin_->Exec(fmt::format(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = '{}'", name)));
  }
  bool WaitsForALock(const std::string& name) {
    return admin_->Exec(fmt::format(
               "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = '{}'"
               " AND wait_event_type = 'Lock'",
               name)) == "1";
  }

  ScratchDatabase database_{kMigrated};
  std::unique_ptr<PgSession> admin_;
};

TEST_F(PostgresInbox, SecondToFileAnEventWaitsAndSeesThatItIsDone) {
  const auto first = Open();
  const auto second = Open(InboxMode::kRecord, "second");
  const Letter letter("k");
  auto batch = File(*first, letter);
  auto other = std::async(std::launch::async, [&] { return KnownOf(*second, letter); });
  ASSERT_TRUE(Eventually([&] { return WaitsForALock("second"); }));
  ValueOrThrow(batch->Finish({&kProcessed, 1}));
  EXPECT_EQ(other.get(), Known::kDone);
}

TEST_F(PostgresInbox, SecondToFileAnEventIsTheFirstWhenThatRollsBack) {
  const auto first = Open();
  const auto second = Open(InboxMode::kRecord, "second");
  const Letter letter("k");
  auto batch = File(*first, letter);
  auto other = std::async(std::launch::async, [&] { return KnownOf(*second, letter); });
  ASSERT_TRUE(Eventually([&] { return WaitsForALock("second"); }));
  batch.reset();
  EXPECT_EQ(other.get(), Known::kNew);
}

// A server whose transactions keep one snapshot would not see what the other has committed.
TEST_F(PostgresInbox, DoesNotDependOnTheServersIsolationLevel) {
  admin_->Exec(
      fmt::format("ALTER DATABASE {} SET default_transaction_isolation = 'repeatable read'", database_.name()));
  const auto first = Open();
  const auto second = Open(InboxMode::kRecord, "second");
  const Letter letter("k");
  auto batch = File(*first, letter);
  auto other = std::async(std::launch::async, [&] { return KnownOf(*second, letter); });
  ASSERT_TRUE(Eventually([&] { return WaitsForALock("second"); }));
  ValueOrThrow(batch->Finish({&kProcessed, 1}));
  EXPECT_EQ(other.get(), Known::kDone);
}

TEST_F(PostgresInbox, SecondWaitsForAVersionAndSeesTheNewOne) {
  const auto first = Open();
  const auto second = Open(InboxMode::kRecord, "second");
  Letter one("o-1", 1);
  one.envelope.aggregate = {"order", "o-1", 1};
  Letter two("o-1", 2);
  two.envelope.aggregate = {"order", "o-1", 2};
  auto batch = File(*first, one, true);
  EXPECT_EQ(batch->standings().at(0).version_seen, 0);
  auto other =
      std::async(std::launch::async, [&] { return File(*second, two, true)->standings().at(0).version_seen; });
  ASSERT_TRUE(Eventually([&] { return WaitsForALock("second"); }));
  Outcome done = kProcessed;
  done.version_seen = 1;
  ValueOrThrow(batch->Finish({&done, 1}));
  EXPECT_EQ(other.get(), 1);
}

TEST_F(PostgresInbox, TenThatApplyOneEventAtOnceGiveOneEffectAndNineDuplicates) {
  constexpr int kThreads = 10;
  admin_->Exec("CREATE TABLE effect (what text)");
  const Letter letter("k");
  ConsumerOptions consumer;
  consumer.consumer = "billing";
  ConsumerCounters counters;
  const Handling handling = [](const Envelope& event, const ReceivedMessage&, HandlerTransaction& tx) {
    const SqlValue key = event.key;
    ValueOrThrow(tx.Execute("INSERT INTO effect VALUES ($1)", {&key, 1}));
    return Decision::Done();
  };
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      SeededRandom random(1);
      Applier applier(
          consumer, handling, [&] { return postgres::OpenInboxStore(options(), "billing", InboxMode::kRecord); },
          counters, SystemClock::Instance(), random);
      EXPECT_TRUE(applier.Store());
      AttachedPartition attached;
      attached.partition = letter.message.partition;
      PartitionRun run(attached, ValueOrThrow(applier.Store())->life(), 10);
      const Incoming event = ReadIncoming(
          letter.message, [](const ReceivedMessage& message) { return EnvelopeFromJson(message.value); });
      std::size_t done = 0;
      start.arrive_and_wait();
      EXPECT_EQ(applier.Apply({&event, 1}, &run, done), ApplyEnd::kDone);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admin_->Count("effect"), 1);
  EXPECT_EQ(admin_->Count("sealane.inbox"), 1);
  EXPECT_EQ(counters.Copy().effects, 1U);
  EXPECT_EQ(counters.Copy().duplicates, 9U);
}

/// A version that waits for the one before it and is due, and a batch with that one which is under way.
class PostgresInboxGap : public PostgresInbox {
 protected:
  PostgresInboxGap() {
    fourth_.envelope.aggregate = {"order", "o-1", 4};
    third_.envelope.aggregate = {"order", "o-1", 3};
    const Outcome gap = Parked(InboxState::kGap, milliseconds{0});
    ValueOrThrow(File(*store_, fourth_, true)->Finish({&gap, 1}));
    batch_ = File(*store_, third_, true);
  }
  Status FinishTheThird() {
    Outcome done = kProcessed;
    done.version_seen = 3;
    return batch_->Finish({&done, 1});
  }

  Letter fourth_{"o-1", 1};
  Letter third_{"o-1", 2};

 private:
  std::unique_ptr<InboxStore> store_ = Open();
  std::unique_ptr<InboxBatch> batch_;
};

TEST_F(PostgresInboxGap, ARetryDoesNotDeadlockWithTheBatchThatWakesIt) {
  const auto keeper = Open(InboxMode::kRecord, "keeper");
  auto other = std::async(std::launch::async, [&] { return keeper->OpenRetry("o-1", true, seconds{60}); });
  ASSERT_TRUE(Eventually([&] { return WaitsForALock("keeper"); }));
  ValueOrThrow(FinishTheThird());
  const auto retry = ValueOrThrow(other.get());
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->id, fourth_.envelope.id);
  EXPECT_EQ(retry->version_seen, 3);
}

TEST_F(PostgresInboxGap, SkippingDoesNotDeadlockWithTheBatchThatWakesIt) {
  const auto desk = ValueOrThrow(postgres::OpenInboxDesk(options("desk")));
  auto skipped = std::async(std::launch::async, [&] {
    return desk->Skip("billing", fourth_.envelope.id, {"ann", "because"});
  });
  ASSERT_TRUE(Eventually([&] { return WaitsForALock("desk"); }));
  ValueOrThrow(FinishTheThird());
  EXPECT_EQ(ValueOrThrow(skipped.get()), 1);
  EXPECT_EQ(admin_->Exec("SELECT version FROM sealane.inbox_version"), "4") << "it was the next one";
}

// Batches with the same events in different orders, and with versions of the same aggregates: each event is new for
// exactly one of them, and nobody has to try again.
TEST_F(PostgresInbox, CrossingBatchesDoNotDeadlock) {
  constexpr int kThreads = 4;
  constexpr std::size_t kRounds = 15;
  constexpr std::size_t kBatch = 40;
  std::vector<std::vector<Letter>> rounds(kRounds);
  for (auto& letters : rounds) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      letters.emplace_back(fmt::format("o-{}", i), static_cast<std::int64_t>(i));
      letters.back().envelope.aggregate = {"order", fmt::format("o-{}", i * 7 % kBatch), 1};
    }
  }
  std::atomic<int> fresh{0};
  std::barrier start(kThreads);
  const auto work = [&](int self) {
    const auto store = Open();
    for (const auto& letters : rounds) {
      std::vector<Arrival> arrivals = ArrivalsOf(letters);
      std::rotate(arrivals.begin(), arrivals.begin() + self * 11, arrivals.end());
      if (self % 2 == 1) std::reverse(arrivals.begin(), arrivals.end());
      start.arrive_and_wait();
      auto batch = store->Open({.arrivals = arrivals, .guard_versions = true});
      if (!batch) {
        ADD_FAILURE() << batch.error().ToString();
        continue;
      }
      std::vector<Outcome> outcomes;
      for (const Standing& standing : (*batch)->standings()) {
        const bool is_new = standing.known == Known::kNew;
        fresh += is_new ? 1 : 0;
        outcomes.push_back(is_new ? kProcessed : Outcome{});
        if (is_new) outcomes.back().version_seen = 1;
      }
      const Status finished = (*batch)->Finish(outcomes);
      EXPECT_TRUE(finished) << finished.error().ToString();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fresh, static_cast<int>(kRounds * kBatch));
  EXPECT_EQ(admin_->Count("sealane.inbox"), static_cast<int>(kRounds * kBatch));
}

TEST_F(PostgresInbox, ReceiptsLandInThePartitionOfTheirDay) {
  const auto store = Open();
  const Timestamp now = SystemClock::Instance().Now();
  const std::vector<Letter> letters = {Letter("a", 0, now), Letter("b", 1, now - hours{24}),
                                       Letter("c", 2, now - hours{24 * 400}), Letter("d", 3, now + hours{24 * 400})};
  const std::vector<Arrival> arrivals = ArrivalsOf(letters);
  auto batch = ValueOrThrow(store->Open({.arrivals = arrivals}));
  ValueOrThrow(batch->Finish(std::vector<Outcome>(4, kProcessed)));
  EXPECT_EQ(admin_->Count("sealane.inbox_default"), 2);
  EXPECT_EQ(admin_->Exec("SELECT count(*) FROM sealane.inbox WHERE tableoid::regclass::text ="
                         " 'sealane.inbox_p' || to_char(filed_at at time zone 'UTC', 'YYYYMMDD')"),
            "2");
  for (const Letter& letter : letters) EXPECT_EQ(KnownOf(*store, letter), Known::kDone) << letter.unit;
}

TEST_F(PostgresInbox, IdsWithoutATimeHaveAPartitionOfTheirOwn) {
  const auto store = Open();
  const Letter letter("a", 0, kFiledWithoutTime);
  ValueOrThrow(File(*store, letter)->Finish({&kProcessed, 1}));
  EXPECT_EQ(admin_->Exec("SELECT tableoid::regclass FROM sealane.inbox"), "sealane.inbox_ageless");
  EXPECT_EQ(ValueOrThrow(store->Prune(SystemClock::Instance().Now(), 10)).receipts, 0);
  EXPECT_EQ(KnownOf(*store, letter), Known::kDone) << "nothing tells how old it is";
}

TEST_F(PostgresInbox, TendMakesThePartitionsThatAreMissing) {
  const auto store = Open();
  const std::string made = admin_->Exec(
      "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'sealane.inbox'::regclass"
      " ORDER BY 1 DESC LIMIT 1");
  admin_->Exec("DROP TABLE " + made);
  ValueOrThrow(store->Tend());
  EXPECT_EQ(admin_->Exec(fmt::format("SELECT to_regclass('{}') IS NOT NULL", made)), "t");
  ValueOrThrow(store->Tend());
}

TEST_F(PostgresInbox, PruneForgetsByLimitAndTheForgottenAreTooOld) {
  const auto store = Open();
  const Timestamp now = SystemClock::Instance().Now();
  std::vector<Letter> letters;
  for (int day = 0; day < 5; ++day) letters.emplace_back(fmt::format("u-{}", day), day, now - hours{24 * 100 * day});
  const std::vector<Arrival> arrivals = ArrivalsOf(letters);
  std::vector<Outcome> outcomes(5, kProcessed);
  outcomes[4] = Parked(InboxState::kDead);
  ValueOrThrow(ValueOrThrow(store->Open({.arrivals = arrivals}))->Finish(outcomes));

  const PruneReport first = ValueOrThrow(store->Prune(now - hours{24}, 2));
  EXPECT_EQ(first.receipts, 2);
  EXPECT_TRUE(first.more);
  const PruneReport second = ValueOrThrow(store->Prune(now - hours{24}, 100));
  EXPECT_EQ(second.receipts, 1);
  EXPECT_FALSE(second.more);
  EXPECT_EQ(KnownOf(*store, letters[0]), Known::kDone);
  EXPECT_EQ(KnownOf(*store, letters[1]), Known::kTooOld);
  EXPECT_EQ(KnownOf(*store, letters[4]), Known::kParked) << "what is set aside is not forgotten";
  EXPECT_EQ(admin_->Count("sealane.inbox"), 2) << "looking leaves nothing behind";

  // It may be set aside for a person; then it is known.
  auto batch = File(*store, letters[2]);
  const Outcome dead = Parked(InboxState::kDead);
  ValueOrThrow(batch->Finish({&dead, 1}));
  EXPECT_EQ(KnownOf(*store, letters[2]), Known::kParked);
  EXPECT_EQ(KnownOf(*store, letters[3]), Known::kTooOld);
}

/// A day in the past with ten million bytes of receipts.
void MakeLargeDay(PgSession& admin, const std::string& state) {
  admin.Exec(
      "CREATE TABLE sealane.inbox_p20200101 (LIKE sealane.inbox INCLUDING DEFAULTS INCLUDING CONSTRAINTS);"
      "ALTER TABLE sealane.inbox ATTACH PARTITION sealane.inbox_p20200101"
      " FOR VALUES FROM ('2020-01-01T00:00:00Z') TO ('2020-01-02T00:00:00Z')");
  admin.Exec(fmt::format(
      "INSERT INTO sealane.inbox (filed_at, \"offset\", event_id, partition, consumer, state, topic, payload_hash,"
      " message) SELECT '2020-01-01T12:00:00Z', i, gen_random_uuid(), 0, 'billing',"
      " CASE WHEN i = 1 THEN '{}' ELSE 'PROCESSED' END, 't', sha256('x'), repeat('x', 1500)"
      " FROM generate_series(1, 6000) i; ANALYZE sealane.inbox",
      state));
}

TEST_F(PostgresInbox, PruneDropsALargeDayAsAWhole) {
  const auto store = Open();
  MakeLargeDay(*admin_, "PROCESSED");
  const PruneReport report = ValueOrThrow(store->Prune(SystemClock::Instance().Now() - hours{24}, 10));
  EXPECT_EQ(report.receipts, 6000);
  EXPECT_FALSE(report.more);
  EXPECT_EQ(admin_->Exec("SELECT to_regclass('sealane.inbox_p20200101') IS NULL"), "t");
}

TEST_F(PostgresInbox, PruneKeepsALargeDayThatIsNeeded) {
  const auto store = Open();
  const auto other = ValueOrThrow(postgres::OpenInboxStore(options(), "shipping", InboxMode::kRecord));
  MakeLargeDay(*admin_, "PROCESSED");
  const PruneReport report = ValueOrThrow(store->Prune(SystemClock::Instance().Now() - hours{24}, 10));
  EXPECT_EQ(report.receipts, 10) << "another consumer has not forgotten that day yet";
  EXPECT_TRUE(report.more);
  EXPECT_EQ(admin_->Count("sealane.inbox_p20200101"), 5990);
}

TEST_F(PostgresInbox, PruneKeepsALargeDayWithSomethingSetAside) {
  const auto store = Open();
  MakeLargeDay(*admin_, "DEAD");
  EXPECT_EQ(ValueOrThrow(store->Prune(SystemClock::Instance().Now() - hours{24}, 100'000)).receipts, 5999);
  EXPECT_EQ(admin_->Count("sealane.inbox_p20200101"), 1);
}

TEST_F(PostgresInbox, PruneDeletesRowsOfALargeDayThatCannotBeDropped) {
  const auto store = Open();
  MakeLargeDay(*admin_, "PROCESSED");
  PgSession batch(database_.url());
  batch.Exec("BEGIN; LOCK TABLE sealane.inbox IN ROW EXCLUSIVE MODE");
  const PruneReport report = ValueOrThrow(store->Prune(SystemClock::Instance().Now() - hours{24}, 10));
  EXPECT_EQ(report.receipts, 10);
  EXPECT_EQ(admin_->Count("sealane.inbox_p20200101"), 5990);
}

/// A prune that has found the large day droppable and now stands still before it drops it: a row of the next day,
/// which it wants to delete, is locked. The server's default isolation level is one in which nothing new would be
/// seen.
class PostgresInboxPruneWindow : public PostgresInbox {
 protected:
  PostgresInboxPruneWindow() : holder_(database_.url()) {
    admin_->Exec(
        fmt::format("ALTER DATABASE {} SET default_transaction_isolation = 'repeatable read'", database_.name()));
    pruner_ = Open(InboxMode::kRecord, "pruner");
    MakeLargeDay(*admin_, "PROCESSED");
    admin_->Exec(
        "CREATE TABLE sealane.inbox_p20200102 (LIKE sealane.inbox INCLUDING DEFAULTS INCLUDING CONSTRAINTS);"
        "ALTER TABLE sealane.inbox ATTACH PARTITION sealane.inbox_p20200102"
        " FOR VALUES FROM ('2020-01-02T00:00:00Z') TO ('2020-01-03T00:00:00Z');"
        "INSERT INTO sealane.inbox (filed_at, \"offset\", event_id, partition, consumer, state, topic, payload_hash)"
        " VALUES ('2020-01-02T12:00:00Z', 1, gen_random_uuid(), 0, 'billing', 'PROCESSED', 't', sha256('x'))");
  }
  /// Prunes; what `meanwhile` does happens in the window.
  template <class Meanwhile>
  void Prune(const Meanwhile& meanwhile) {
    holder_.Exec("BEGIN; SELECT FROM sealane.inbox_p20200102 FOR UPDATE");
    auto pruned =
        std::async(std::launch::async, [&] { return pruner_->Prune(SystemClock::Instance().Now() - hours{24}, 10); });
    EXPECT_TRUE(Eventually([&] { return WaitsForALock("pruner"); }));
    meanwhile();
    holder_.Exec("COMMIT");
    ValueOrThrow(pruned.get());
  }

  const Letter letter_{"k", 1, Timestamp{seconds{1'577'880'000}}};  // noon of that day

 private:
  std::unique_ptr<InboxStore> pruner_;
  PgSession holder_;
};

TEST_F(PostgresInboxPruneWindow, PruneKeepsADayThatANewConsumerHasBegunToUse) {
  Prune([&] {
    const auto other = ValueOrThrow(postgres::OpenInboxStore(options(), "shipping", InboxMode::kRecord));
    ValueOrThrow(File(*other, letter_)->Finish({&kProcessed, 1}));
  });
  const auto other = ValueOrThrow(postgres::OpenInboxStore(options(), "shipping", InboxMode::kRecord));
  EXPECT_EQ(KnownOf(*other, letter_), Known::kDone);
}

TEST_F(PostgresInboxPruneWindow, PruneKeepsADayInWhichSomethingWasSetAsideMeanwhile) {
  const auto store = Open();
  Prune([&] {
    const Outcome dead = Parked(InboxState::kDead);
    ValueOrThrow(File(*store, letter_)->Finish({&dead, 1}));
  });
  EXPECT_EQ(KnownOf(*store, letter_), Known::kParked);
}

TEST_F(PostgresInbox, ATextThatNoColumnHoldsLosesTheTransaction) {
  const auto store = Open();
  const Letter letter("k");
  const auto batch = File(*store, letter);
  const SqlValue nul = std::string("a\0b", 3);
  ASSERT_FALSE(batch->Execute("SELECT $1::text", {&nul, 1}));
  EXPECT_FALSE(batch->Check());
  EXPECT_FALSE(batch->Finish({&kProcessed, 1})) << "also when the error was swallowed";
}

TEST_F(PostgresInbox, ARetryWithoutVersionsLeavesNoneBehind) {
  const auto store = Open();
  Letter letter("o-1");
  letter.envelope.aggregate = {"order", "o-1", 4};
  const Outcome failed = Parked(InboxState::kFailed, milliseconds{0});
  ValueOrThrow(File(*store, letter)->Finish({&failed, 1}));
  ValueOrThrow(ValueOrThrow(store->OpenRetry("o-1", false, seconds{60}))->batch->Finish({&kProcessed, 1}));
  EXPECT_EQ(admin_->Count("sealane.inbox_version"), 0);
}

// What a member runs for each batch, each second and each look costs what it finds, however many wait for a person,
// wait behind those, or were given up. Counted in pages, not in time.
TEST_F(PostgresInbox, WhatIsDeadOrGivenUpCostsNothing) {
  const auto store = Open();
  const Outcome due = Parked(InboxState::kFailed, milliseconds{0});
  ValueOrThrow(File(*store, Letter("due"))->Finish({&due, 1}));
  const std::string insert =
      "INSERT INTO sealane.inbox_parked (filed_at, published_at, \"offset\", event_id, partition, attempts, consumer,"
      " unit, state, topic, aggregate_type, aggregate_id, aggregate_version, payload_hash, message_key,"
      " message_headers, message_value)"
      " SELECT now(), now(), i, gen_random_uuid(), 0, {}, 'billing', '{}' || i, '{}', 'orders', 'order', 'u-' || i, "
      "{},"
      " '', '', '', '' FROM generate_series(1, {}) i";
  admin_->Exec(fmt::format(fmt::runtime(insert), 1, "u-", "DEAD", 1, 20'000));
  admin_->Exec(fmt::format(fmt::runtime(insert), 0, "u-", "RECEIVED", 2, 20'000));
  admin_->Exec(fmt::format(fmt::runtime(insert), 1, "s-", "SKIPPED", 1, 100'000));
  admin_->Exec("ANALYZE sealane.inbox_parked; ANALYZE sealane.inbox_order_key");
  EXPECT_EQ(admin_->Count("sealane.inbox_order_key"), 20'001);
  const auto pages = [&](const std::string& sql) {
    // Once before: the first call of a session reads the catalog.
    admin_->Exec(sql);
    const std::string plan = admin_->Exec("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF) " + sql);
    const auto json = nlohmann::json::parse(plan).at(0).at("Plan");
    return json.at("Shared Hit Blocks").get<int>() + json.at("Shared Read Blocks").get<int>();
  };
  for (const char* const by_version : {"false", "true"}) {
    EXPECT_LT(pages(fmt::format("SELECT * FROM sealane.inbox_look('billing', {}, 256)", by_version)), 60);
    EXPECT_LT(pages(fmt::format("SELECT * FROM sealane.inbox_due_units('billing', {}, 256)", by_version)), 40);
    EXPECT_LT(pages(fmt::format("SELECT * FROM sealane.inbox_waits('billing', ARRAY['h-1', 'h-2', 'u-7'], {},"
                                " ARRAY['', '', ''], ARRAY['order', 'order', 'order'], ARRAY['h-1', 'h-2', 'u-7'],"
                                " NULL, NULL)",
                                by_version)),
              80);
  }
  EXPECT_LT(pages("SELECT sealane.inbox_clear_skipped('billing', now() - interval '1 day', 5000)"), 40);
  EXPECT_LT(pages("SELECT * FROM sealane.inbox_count('billing', 1000)"), 2'500)
      << "a page for each row that is counted";
  for (const bool by_version : {false, true}) {
    EXPECT_THAT(ValueOrThrow(store->DueUnits(by_version, 10)), ElementsAre("due"));
  }
}

// One member parks followers while another one works the order keys off: none is forgotten.
TEST_F(PostgresInbox, NoOrderKeyIsForgottenBetweenMembers) {
  constexpr int kUnits = 4;
  constexpr int kRounds = 60;
  std::atomic<bool> parked = false;
  std::int64_t applied = 0;
  std::jthread keeper([&] {
    const auto store = Open();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{2};
    bool last = false;
    while (std::chrono::steady_clock::now() < deadline) {
      const auto units = ValueOrThrow(store->DueUnits(false, 10));
      if (units.empty() && last) return;
      last = parked && units.empty();
      for (const std::string& unit : units) {
        auto retry = ValueOrThrow(store->OpenRetry(unit, false, seconds{60}));
        if (!retry) continue;
        ValueOrThrow(retry->batch->Finish({&kProcessed, 1}));
        ++applied;
      }
    }
  });
  const auto store = Open();
  const Outcome waits = Parked(InboxState::kReceived);
  for (int round = 0; round < kRounds; ++round) {
    for (int unit = 0; unit < kUnits; ++unit) {
      ValueOrThrow(File(*store, Letter(fmt::format("u-{}", unit), round * kUnits + unit))->Finish({&waits, 1}));
    }
  }
  parked = true;
  keeper.join();
  EXPECT_EQ(applied, kUnits * kRounds);
  EXPECT_EQ(admin_->Count("sealane.inbox_parked"), 0);
  EXPECT_EQ(admin_->Count("sealane.inbox_order_key"), 0);
}

// Nothing of ours copies. Should it happen all the same, it must not go on for ever.
TEST_F(PostgresInbox, ACopyAmongCallsIsAnErrorAndEndsTheConnection) {
  for (const char* const copy :
       {"COPY (SELECT repeat('x', 1000) FROM generate_series(1, 10000)) TO STDOUT", "COPY t FROM STDIN"}) {
    const auto connection = ValueOrThrow(postgres::Connection::Open(options()));
    const std::vector<postgres::Call> calls = {postgres::Call("CREATE TEMPORARY TABLE t (a text)"),
                                               postgres::Call(copy), postgres::Call("SELECT 1")};
    const postgres::PipelineReport report = postgres::RunTogether(connection.get(), calls);
    ASSERT_TRUE(report.error.has_value()) << copy;
    EXPECT_EQ(report.error->code(), "copy_in_pipeline");
    EXPECT_EQ(PQstatus(connection.get()), CONNECTION_BAD);
  }
}

// Counted in libpq's own trace: a server ends each round trip with one ReadyForQuery.
TEST_F(PostgresInbox, ABatchIsTwoRoundTrips) {
  const auto store = Open(InboxMode::kRecord, "counted");
  std::vector<Letter> letters;
  for (int i = 0; i < 100; ++i) {
    letters.emplace_back(fmt::format("o-{}", i), i);
    letters.back().envelope.aggregate = {"order", fmt::format("o-{}", i), 1};
  }
  const std::vector<Arrival> arrivals = ArrivalsOf(letters);
  std::vector<Outcome> outcomes(letters.size(), kProcessed);
  outcomes[3] = OutcomeOf(Outcome::Kind::kIgnored);
  outcomes[4] = Parked(InboxState::kFailed);
  for (Outcome& outcome : outcomes) outcome.version_seen = 1;

  auto batch = ValueOrThrow(store->Open({.arrivals = arrivals, .guard_versions = true}));
  std::string trace;
  {
    char* text = nullptr;
    std::size_t size = 0;
    FILE* const stream = open_memstream(&text, &size);
    PQtrace(batch->native().postgres, stream);
    ValueOrThrow(batch->Finish(outcomes));
    // The next batch on the same connection is traced from its beginning.
    batch = ValueOrThrow(store->Open({.arrivals = arrivals, .guard_versions = true}));
    PQuntrace(batch->native().postgres);
    std::fclose(stream);
    trace.assign(text, size);
    std::free(text);
  }
  std::size_t ready = 0;
  for (std::size_t at = trace.find("ReadyForQuery"); at != std::string::npos;
       at = trace.find("ReadyForQuery", at + 1))
    ++ready;
  EXPECT_EQ(ready, 2U) << "one for Finish(), one for Open()";
  EXPECT_EQ(admin_->Count("sealane.inbox WHERE state = 'PROCESSED'"), 98);
}

TEST_F(PostgresInbox, FormerOwnerOfAPartitionIsFenced) {
  const auto former = Open(InboxMode::kOffsets);
  const auto next = Open(InboxMode::kOffsets);
  const Partition partition{"orders", 0};
  const AttachedPartition old = ValueOrThrow(former->Attach({&partition, 1}, 10)).front();
  EXPECT_EQ(old.next_offset, std::nullopt);
  const Letter letter("k", 5);
  const Arrival arrival = letter.arrival();
  BatchRequest request{.arrivals = {&arrival, 1}};
  request.progress = {partition, old.epoch, 5, 6};
  ValueOrThrow(ValueOrThrow(former->Open(request))->Finish({&kProcessed, 1}));

  const AttachedPartition now = ValueOrThrow(next->Attach({&partition, 1}, 10)).front();
  EXPECT_GT(now.epoch, old.epoch);
  EXPECT_EQ(now.next_offset, 6);
  EXPECT_THAT(now.recent, ElementsAre(letter.envelope.id));
  EXPECT_EQ(now.deaths, 1);

  request.progress = {partition, old.epoch, 6, 7};
  const auto fenced = former->Open(request);
  ASSERT_FALSE(fenced);
  EXPECT_EQ(fenced.error().kind(), ErrorKind::kFenced);
  EXPECT_EQ(fenced.error().code(), "partition_fenced");
  EXPECT_EQ(former->Suspect(old, 6).error().kind(), ErrorKind::kFenced);
  EXPECT_TRUE(former->Detach({&old, 1})) << "passed over";
  request.progress = {partition, now.epoch, 5, 7};
  EXPECT_EQ(next->Open(request).error().code(), "partition_fenced") << "a wrong position";
  request.progress = {partition, now.epoch, 6, 7};
  EXPECT_TRUE(next->Open(request)) << "an error leaves the connection as good as before";
}

TEST_F(PostgresInbox, ABatchOfNothingMovesThePosition) {
  const auto store = Open(InboxMode::kOffsets);
  const Partition partition{"orders", 0};
  const AttachedPartition attached = ValueOrThrow(store->Attach({&partition, 1}, 10)).front();
  BatchRequest request;
  request.guard_versions = true;
  request.progress = {partition, attached.epoch, 5, 9};
  ValueOrThrow(ValueOrThrow(store->Open(request))->Finish({}));
  const AttachedPartition again = ValueOrThrow(store->Attach({&partition, 1}, 10)).front();
  EXPECT_EQ(again.next_offset, 9);
  EXPECT_THAT(again.recent, IsEmpty());
}

// The new owner takes over while the former one is in the middle of a batch: one of them waits, and the loser learns.
TEST_F(PostgresInbox, TakingOverWaitsForTheBatchThatIsUnderWay) {
  const auto former = Open(InboxMode::kOffsets);
  const auto next = Open(InboxMode::kOffsets, "next");
  const Partition partition{"orders", 0};
  const AttachedPartition old = ValueOrThrow(former->Attach({&partition, 1}, 10)).front();
  const Letter letter("k", 5);
  const Arrival arrival = letter.arrival();
  BatchRequest request{.arrivals = {&arrival, 1}};
  request.progress = {partition, old.epoch, 5, 6};
  auto batch = ValueOrThrow(former->Open(request));
  auto taken = std::async(std::launch::async, [&] {
    return ValueOrThrow(next->Attach({&partition, 1}, 10)).front();
  });
  ASSERT_TRUE(Eventually([&] { return WaitsForALock("next"); }));
  ValueOrThrow(batch->Finish({&kProcessed, 1}));
  EXPECT_EQ(taken.get().next_offset, 6) << "what the former owner did counts";
}

TEST_F(PostgresInbox, AConnectionThatIsGoneBeforeTheCommitIsUnavailableOrInDoubt) {
  const auto store = Open(InboxMode::kRecord, "victim");
  const Letter letter("k");
  auto batch = File(*store, letter);
  admin_->Exec(fmt::format("SELECT pg_terminate_backend({}, 10000)", BackendOf("victim")));
  const Status status = batch->Finish({&kProcessed, 1});
  ASSERT_FALSE(status);
  EXPECT_TRUE(status.error().kind() == ErrorKind::kInDoubt || status.error().kind() == ErrorKind::kUnavailable)
      << status.error().ToString();
  batch.reset();
  EXPECT_EQ(store->Count().error().kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(KnownOf(*Open(), letter), Known::kNew);
}

// A dump that is restored into the database holds its tables locked. Who has waited for that must not write into what
// it left: effects of earlier events may be missing there.
TEST_F(PostgresInbox, ABatchThatWaitedForARestoreCommitsNothing) {
  const auto store = Open(InboxMode::kRecord, "waiting");
  const Letter letter("k");
  admin_->Exec("BEGIN; LOCK TABLE sealane.inbox IN ACCESS EXCLUSIVE MODE");
  auto waiting = std::async(std::launch::async, [&] { return File(*store, letter); });
  PgSession watcher(database_.url());
  ASSERT_TRUE(Eventually([&] {
    return watcher.Exec(
               "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
               "application_name = 'waiting' AND wait_event_type = 'Lock'") == "1";
  }));
  admin_->Exec(
      "ALTER TABLE sealane.inbox_progress RENAME TO gone; "
      "CREATE TABLE sealane.inbox_progress (LIKE sealane.gone INCLUDING ALL); COMMIT");
  const auto batch = waiting.get();
  const Status finished = batch->Finish({&kProcessed, 1});
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code(), "store_changed");
  EXPECT_EQ(admin_->Count("sealane.inbox"), 0);
}

TEST_F(PostgresInbox, AConnectionThatBreaksInsideFinishIsUnavailableOrInDoubt) {
  const auto store = Open(InboxMode::kRecord, "victim");
  const Letter letter("k");
  // Finish() waits for a lock in here when it is killed.
  admin_->Exec("BEGIN; LOCK TABLE sealane.inbox_parked IN EXCLUSIVE MODE");
  auto batch = File(*store, letter);
  PgSession killer(database_.url());
  auto finished = std::async(std::launch::async, [&] {
    const Outcome failed = Parked(InboxState::kFailed);
    return batch->Finish({&failed, 1});
  });
  const std::string waiting =
      "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'victim' AND "
      "wait_event_type = 'Lock'";
  ASSERT_TRUE(Eventually([&] { return killer.Exec(waiting) == "1"; }));
  killer.Exec(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND "
      "application_name = 'victim'");
  const Status status = finished.get();
  admin_->Exec("ROLLBACK");
  ASSERT_FALSE(status);
  EXPECT_TRUE(status.error().kind() == ErrorKind::kInDoubt || status.error().kind() == ErrorKind::kUnavailable)
      << status.error().ToString();
  EXPECT_EQ(KnownOf(*Open(), letter), Known::kNew);
}

TEST_F(PostgresInbox, NothingStaysOpenAfterAnError) {
  const auto store = Open();
  const Letter letter("k");
  auto batch = File(*store, letter);
  EXPECT_EQ(batch->Execute("SELECT 1/0", {}).error().code(), "invalid_value");
  EXPECT_EQ(batch->Finish({&kProcessed, 1}).error().code(), "transaction_failed");
  batch.reset();
  EXPECT_EQ(KnownOf(*store, letter), Known::kNew);

  batch = File(*store, letter);
  EXPECT_EQ(batch->Execute("/* a /* b */ */ -- c\n commit", {}).error().code(), "transaction_ended");
  EXPECT_EQ(PQtransactionStatus(batch->native().postgres), PQTRANS_INTRANS) << "it was not sent";
  EXPECT_EQ(batch->Check().error().code(), "transaction_failed") << "and nothing is kept without it";
  PQclear(PQexec(batch->native().postgres, "COMMIT"));
  EXPECT_EQ(batch->Check().error().code(), "transaction_ended");
  EXPECT_EQ(batch->Finish({&kProcessed, 1}).error().code(), "transaction_ended");
  EXPECT_EQ(ValueOrThrow(store->Count()).parked, 0);
}

TEST_F(PostgresInbox, AnErrorThatAHandlerPassesOverIsItsOwn) {
  const auto store = Open();
  const auto batch = File(*store, Letter("k"));
  EXPECT_TRUE(batch->Check());
  const auto missing = batch->Execute("INSERT INTO no_such_table VALUES (1)", {});
  EXPECT_EQ(missing.error().code(), "relation_missing");
  EXPECT_EQ(missing.error().hint().find("migrate"), std::string::npos);
  EXPECT_EQ(batch->Check().error().code(), "transaction_failed");
}

TEST_F(PostgresInbox, HandlersBindTextsNumbersBytesAndNulls) {
  admin_->Exec("CREATE TABLE effect (id bigint, at timestamptz, body bytea, note text)");
  const auto store = Open();
  const Letter letter("k");
  auto batch = File(*store, letter);
  const std::vector<SqlValue> values = {std::int64_t{42}, std::string("2026-01-02T03:04:05Z"),
                                        SqlBytes{std::string("\0\xff", 2)}, std::monostate{}};
  EXPECT_EQ(ValueOrThrow(batch->Execute("INSERT INTO effect VALUES ($1, $2, $3, $4)", values)), 1);
  const auto rows = ValueOrThrow(batch->Query("SELECT id, at, body, note FROM effect, generate_series(1, 3)", {}, 2));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_THAT(rows[0], ElementsAre("42", "2026-01-02 03:04:05+00", "\\x00ff", std::nullopt));
  const SqlValue nul = std::string("a\0b", 3);
  EXPECT_EQ(batch->Execute("SELECT $1", {&nul, 1}).error().code(), "nul_in_text");
}

/// How many statements the batch's session has prepared.
std::string PreparedIn(InboxBatch& batch) {
  const auto rows = ValueOrThrow(
      batch.Query("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'sealane_handler%'", {}, 1));
  return rows.at(0).at(0).value();
}

TEST_F(PostgresInbox, AHandlersStatementThatComesOftenIsPreparedOnce) {
  admin_->Exec("CREATE TABLE effect (n bigint)");
  const auto store = Open();
  const std::vector<SqlValue> number = {std::int64_t{1}};
  {
    auto rolled_back = File(*store, Letter("a"));
    for (int i = 0; i < 4; ++i) ValueOrThrow(rolled_back->Execute("INSERT INTO effect VALUES ($1)", number));
  }
  const Letter letter("a");
  auto batch = File(*store, letter);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ValueOrThrow(batch->Execute("INSERT INTO effect VALUES ($1)", number)), 1);
    EXPECT_EQ(ValueOrThrow(batch->Execute(fmt::format("INSERT INTO effect VALUES ({})", i))), 1);
  }
  EXPECT_EQ(PreparedIn(*batch), "1");
  ValueOrThrow(batch->Finish({&kProcessed, 1}));
  EXPECT_EQ(admin_->Exec("SELECT count(*) FROM effect"), "8");
}

TEST_F(PostgresInbox, PreparedStatementsThatAreGoneCostOneTransaction) {
  admin_->Exec("CREATE TABLE effect (n bigint)");
  const auto store = Open();
  const std::vector<SqlValue> number = {std::int64_t{1}};
  const auto insert = [&](InboxBatch& batch) { return batch.Execute("INSERT INTO effect VALUES ($1)", number); };
  {
    const Letter letter("a");
    auto batch = File(*store, letter);
    for (int i = 0; i < 4; ++i) ValueOrThrow(insert(*batch));
    // As after a pooler has given the next transaction to another session.
    ValueOrThrow(batch->Execute("DEALLOCATE ALL"));
    const auto lost = insert(*batch);
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().kind(), ErrorKind::kConflict);
    EXPECT_EQ(lost.error().code(), "statement_not_prepared");
  }
  const Letter letter("a");
  auto batch = File(*store, letter);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ValueOrThrow(insert(*batch)), 1);
  EXPECT_EQ(PreparedIn(*batch), "0");
  ValueOrThrow(batch->Finish({&kProcessed, 1}));
}

TEST_F(PostgresInbox, ATableThatChangesUnderAPreparedQueryCostsOneTransaction) {
  admin_->Exec("CREATE TABLE price (item text, amount integer)");
  admin_->Exec("INSERT INTO price VALUES ('tea', 3)");
  const auto store = Open();
  const auto look = [](InboxBatch& batch) { return batch.Query("SELECT * FROM price", {}, 10); };
  {
    const Letter letter("a");
    auto batch = File(*store, letter);
    for (int i = 0; i < 4; ++i) ValueOrThrow(look(*batch));
    ValueOrThrow(batch->Finish({&kProcessed, 1}));
  }
  admin_->Exec("ALTER TABLE price ADD currency text DEFAULT 'EUR'");
  {
    const Letter letter("b");
    auto batch = File(*store, letter);
    const auto changed = look(*batch);
    ASSERT_FALSE(changed);
    EXPECT_EQ(changed.error().kind(), ErrorKind::kConflict);
  }
  const Letter letter("b");
  auto batch = File(*store, letter);
  EXPECT_EQ(ValueOrThrow(look(*batch)).at(0).size(), 3U);
  ValueOrThrow(batch->Finish({&kProcessed, 1}));
}

TEST_F(PostgresInbox, TheSameTextWithOtherTypesIsAnotherStatement) {
  admin_->Exec("CREATE TABLE effect (n text)");
  const auto store = Open();
  const Letter letter("a");
  auto batch = File(*store, letter);
  const std::vector<SqlValue> text = {std::string("x")};
  const std::vector<SqlValue> nothing = {std::monostate{}};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(ValueOrThrow(batch->Execute("INSERT INTO effect VALUES ($1)", text)), 1);
    EXPECT_EQ(ValueOrThrow(batch->Execute("INSERT INTO effect VALUES ($1)", nothing)), 1);
  }
  const std::vector<SqlValue> number = {std::int64_t{7}};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(ValueOrThrow(batch->Execute("INSERT INTO effect VALUES ($1)", number)), 1);
  }
  EXPECT_EQ(PreparedIn(*batch), "2");
  ValueOrThrow(batch->Finish({&kProcessed, 1}));
  EXPECT_EQ(admin_->Exec("SELECT count(n) FROM effect"), "10");
}

TEST_F(PostgresInbox, UnreadableMessagesComeBackByteForByte) {
  const auto store = Open();
  ReceivedMessage message;
  message.partition = {"orders", 3};
  message.offset = 77;
  message.published_at = Timestamp{std::chrono::microseconds{1'600'000'000'123'456}};
  message.key = std::string("\0\xff\xfe", 3);
  message.value = std::string("no event \0\xc3\x28", 12);
  message.headers = {{"b", std::string("\0\1", 2)}, {"a", ""}, {"b", "again"}, {"\xff", "x"}};
  const std::string unit = message.key;
  const Arrival arrival{&message, nullptr, FreshId(), Sha256(message.value), message.published_at, unit};
  auto batch = ValueOrThrow(store->Open({.arrivals = {&arrival, 1}, .guard_versions = true}));
  Outcome failed = Parked(InboxState::kFailed);
  failed.park.error_message = std::string("bad \0 byte \xff", 12);
  ValueOrThrow(batch->Finish({&failed, 1}));

  EXPECT_THAT(ValueOrThrow(store->DueUnits(true, 10)), ElementsAre(unit));
  const auto retry = ValueOrThrow(store->OpenRetry(unit, true, seconds{10}));
  ASSERT_TRUE(retry);
  EXPECT_EQ(retry->unit, unit);
  EXPECT_EQ(retry->message.partition, message.partition);
  EXPECT_EQ(retry->message.offset, 77);
  EXPECT_EQ(retry->message.published_at, message.published_at);
  EXPECT_EQ(retry->message.key, message.key);
  EXPECT_EQ(retry->message.value, message.value);
  EXPECT_EQ(retry->message.headers, message.headers);
}

TEST_F(PostgresInbox, UnitsThatLookLikeHexadecimalKeepTheirName) {
  const auto store = Open();
  const Letter letter("\\x00");
  auto batch = File(*store, letter);
  const Outcome failed = Parked(InboxState::kFailed);
  ValueOrThrow(batch->Finish({&failed, 1}));
  EXPECT_THAT(ValueOrThrow(store->DueUnits(false, 10)), ElementsAre("\\x00"));
  EXPECT_TRUE(ValueOrThrow(store->OpenRetry("\\x00", false, seconds{10})));
}

// Somebody whose time is over still holds the row: nobody gets it as long as his connection lives.
TEST_F(PostgresInbox, ARetryThatTakesLongerThanItsPatienceIsNotDoubled) {
  const auto store = Open();
  const auto other = Open();
  const Letter letter("k");
  auto batch = File(*store, letter);
  const Outcome failed = Parked(InboxState::kFailed);
  ValueOrThrow(batch->Finish({&failed, 1}));
  auto retry = ValueOrThrow(store->OpenRetry("k", false, milliseconds{0}));
  ASSERT_TRUE(retry);
  EXPECT_EQ(retry->attempts, 2);
  EXPECT_FALSE(ValueOrThrow(other->OpenRetry("k", false, milliseconds{0})));
  ValueOrThrow(retry->batch->Finish({&kProcessed, 1}));
  EXPECT_FALSE(ValueOrThrow(other->OpenRetry("k", false, milliseconds{0})));
  EXPECT_EQ(admin_->Exec("SELECT state FROM sealane.inbox"), "PROCESSED");
}

TEST_F(PostgresInbox, OtherBytesUnderAKnownIdDoNotTouchItsReceipt) {
  const auto store = Open();
  Letter letter("k");
  ValueOrThrow(File(*store, letter)->Finish({&kProcessed, 1}));
  letter.envelope.payload_hash = Sha256("other");
  letter.message.offset = 1;
  auto batch = File(*store, letter);
  EXPECT_EQ(KnownOf(*batch), Known::kOtherBytes);
  const Outcome dead = Parked(InboxState::kDead);
  ValueOrThrow(batch->Finish({&dead, 1}));
  EXPECT_EQ(KnownOf(*store, letter), Known::kParked);
  EXPECT_EQ(admin_->Exec("SELECT state FROM sealane.inbox"), "PROCESSED");
  EXPECT_EQ(ValueOrThrow(store->Count()).dead, 1) << "the same message is set aside once, however often it comes";
}

TEST_F(PostgresInbox, AModeIsKept) {
  Open(InboxMode::kOffsets);
  const auto other = postgres::OpenInboxStore(options(), "billing", InboxMode::kRecord);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind(), ErrorKind::kMisconfigured);
  EXPECT_EQ(other.error().code(), "inbox_mode_differs");
  EXPECT_NE(other.error().hint(), "");
}

}  // namespace
}  // namespace sealane
