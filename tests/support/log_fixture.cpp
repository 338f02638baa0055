#include "support/log_fixture.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "memory/database.hpp"
#include "memory/memory_store.hpp"
#include "postgres/postgres_store.hpp"
#include "sqlite/sqlite_store.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using std::chrono::seconds;

/// More pages than any test has events.
constexpr int kPagesMax = 10'000;

class MemoryLogFixture final : public LogFixture {
 public:
  std::unique_ptr<OutboxStore> OpenStore() override { return ValueOrThrow(memory::OpenOutboxStore(database_)); }
  std::unique_ptr<OutboxLog> OpenLog(const std::string& owner, const std::string& route) override {
    return memory::MakeOutboxLog(database_, route, owner, clock_);
  }
  std::unique_ptr<DeadLetters> OpenDeadLetters() override { return ValueOrThrow(memory::OpenDeadLetters(database_)); }
  std::unique_ptr<RouteDesk> OpenRouteDesk() override { return ValueOrThrow(memory::OpenRouteDesk(database_)); }
  void LetTimePass(seconds duration) override { clock_.Advance(duration); }
  void Erase(const EventId& id) override { database_->Erase(id); }

 private:
  ManualClock clock_;
  std::shared_ptr<memory::Database> database_ = memory::MakeDatabase(clock_, seconds{60});
};

class SqliteLogFixture final : public LogFixture {
 public:
  SqliteLogFixture() { file_.Migrate(); }
  std::unique_ptr<OutboxStore> OpenStore() override { return ValueOrThrow(sqlite::OpenOutboxStore(options())); }
  std::unique_ptr<OutboxLog> OpenLog(const std::string& owner, const std::string& route) override {
    return ValueOrThrow(sqlite::OpenOutboxLog(options(), route, owner));
  }
  std::unique_ptr<DeadLetters> OpenDeadLetters() override { return ValueOrThrow(sqlite::OpenDeadLetters(options())); }
  std::unique_ptr<RouteDesk> OpenRouteDesk() override { return ValueOrThrow(sqlite::OpenRouteDesk(options())); }
  void LetTimePass(seconds duration) override {
    SqliteHandle(file_.path())
        .Execute(fmt::format("UPDATE sealane_cursor SET expires_at = expires_at - {0};"
                             "UPDATE sealane_relay_member SET expires_at = expires_at - {0};"
                             "UPDATE sealane_settlement SET at = at - {0};"
                             "UPDATE sealane_rerouted SET at = at - {0};"
                             "UPDATE sealane_delayed SET due_at = due_at - {0};"
                             "UPDATE sealane_parked SET next_attempt_at = next_attempt_at - {0},"
                             " first_failed_at = first_failed_at - {0}, last_failed_at = last_failed_at - {0}",
                             std::chrono::microseconds(duration).count()));
  }
  void Erase(const EventId& id) override {
    SqliteHandle(file_.path())
        .Execute(fmt::format("DELETE FROM sealane_outbox WHERE event_id = '{}'", id.ToString()));
  }
  bool has_one_writer() const override { return true; }

 private:
  sqlite::Options options() const { return {.path = file_.path(), .busy_timeout = seconds{60}}; }

  SqliteFile file_;
};

class PostgresLogFixture final : public LogFixture {
 public:
  std::unique_ptr<OutboxStore> OpenStore() override { return ValueOrThrow(postgres::OpenOutboxStore(options())); }
  std::unique_ptr<OutboxLog> OpenLog(const std::string& owner, const std::string& route) override {
    return ValueOrThrow(postgres::OpenOutboxLog(options(), route, owner));
  }
  std::unique_ptr<DeadLetters> OpenDeadLetters() override {
    return ValueOrThrow(postgres::OpenDeadLetters(options()));
  }
  std::unique_ptr<RouteDesk> OpenRouteDesk() override { return ValueOrThrow(postgres::OpenRouteDesk(options())); }
  /// By hand, so that the operators' part is tested alone.
  void Park(const std::vector<Parked>& events, const std::string& route) override {
    PgSession session(database_.url());
    session.Exec(fmt::format("SELECT sealane.add_route('{}')", route));
    for (const Parked& event : events) {
      session.Exec(fmt::format(
          "INSERT INTO sealane.parked (route, lane, seq, xid, event_id, unit, tenant, topic, key, state, attempts,"
          " error_code, error_message, appended_at, payload_size, first_failed_at, last_failed_at)"
          " SELECT '{0}', lane, seq, xid, event_id, key, tenant, topic, key, '{1}', {2}, nullif('{3}', ''),"
          " 'said ' || nullif('{3}', ''), appended_at, payload_size, CASE WHEN '{3}' <> '' THEN clock_timestamp() "
          "END,"
          " CASE WHEN '{3}' <> '' THEN clock_timestamp() END FROM sealane.outbox WHERE event_id = '{4}'",
          route, ToString(event.state), event.attempts, event.error_code, event.id.ToString()));
    }
  }
  void LetTimePass(seconds duration) override {
    PgSession(database_.url())
        .Exec(fmt::format("UPDATE sealane.relay_member SET expires_at = expires_at - interval '{0} seconds';"
                          "UPDATE sealane.settlement SET at = at - interval '{0} seconds';"
                          "UPDATE sealane.rerouted SET at = at - interval '{0} seconds';"
                          "UPDATE sealane.delayed SET due_at = due_at - interval '{0} seconds';"
                          "UPDATE sealane.parked SET next_attempt_at = next_attempt_at - interval '{0} seconds',"
                          " first_failed_at = first_failed_at - interval '{0} seconds',"
                          " last_failed_at = last_failed_at - interval '{0} seconds'",
                          duration.count()));
  }
  void Erase(const EventId& id) override {
    PgSession(database_.url()).Exec(fmt::format("DELETE FROM sealane.outbox WHERE event_id = '{}'", id.ToString()));
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

void LogFixture::Park(const std::vector<Parked>& events, const std::string& route) {
  const auto log = OpenLog("parker", route);
  const std::vector<LaneGrant> grants = TakeAll(*log);
  ASSERT_FALSE(grants.empty());
  const ReadOut out = ReadToEnd(*log, {.lanes = LanesOf(grants), .from = grants.front().positions.main});
  SettleRequest request;
  for (const Parked& parked : events) {
    const auto event =
        std::ranges::find(out.events, parked.id, [](const ReadEvent& read) { return read.envelope.id; });
    ASSERT_NE(event, out.events.end()) << parked.id.ToString();
    request.park.push_back(parked.error_code.empty()
                               ? ParkOf(grants, *event, parked.state)
                               : FailureOf(grants, *event, parked.state, parked.attempts, parked.error_code));
    request.park.back().attempts = parked.attempts;
  }
  EXPECT_TRUE(ValueOrThrow(log->Settle(request)).fenced.empty());
  ValueOrThrow(log->Leave());
}

std::unique_ptr<LogFixture> MakeLogFixture(const std::string& kind) {
  if (kind == "memory") return std::make_unique<MemoryLogFixture>();
  if (kind == "sqlite") return std::make_unique<SqliteLogFixture>();
  SEALANE_ASSERT(kind == "postgres", "a log fixture is named memory, sqlite or postgres");
  return std::make_unique<PostgresLogFixture>();
}

std::vector<std::string> LogStores() {
  return {"memory", "sqlite", "postgres"};
}

std::vector<LaneGrant> TakeAll(OutboxLog& log, std::chrono::milliseconds ttl) {
  constexpr std::int32_t kMoreThanThereAre = 10'000;
  return ValueOrThrow(log.Claim(kMoreThanThereAre, ttl));
}

std::vector<Lane> LanesOf(const std::vector<LaneGrant>& grants) {
  std::vector<Lane> lanes;
  for (const LaneGrant& grant : grants) lanes.push_back(grant.lease.lane);
  return lanes;
}

std::vector<LaneLease> LeasesOf(const std::vector<LaneGrant>& grants) {
  std::vector<LaneLease> leases;
  for (const LaneGrant& grant : grants) leases.push_back(grant.lease);
  return leases;
}

LaneLease LeaseFor(const std::vector<LaneGrant>& grants, const LogEntry& entry) {
  for (const LaneGrant& grant : grants) {
    if (grant.lease.lane == entry.lane) return grant.lease;
  }
  ADD_FAILURE() << "lane " << entry.lane << " was not granted";
  return {};
}

ReadOut ReadToEnd(OutboxLog& log, const ReadPlan& plan) {
  ReadOut out;
  out.horizon = ValueOrThrow(log.Look());
  out.at = plan.from;
  for (int i = 0; i < kPagesMax; ++i) {
    ReadRequest request;
    request.lanes = plan.lanes;
    request.tenants = plan.tenants;
    request.all_but = plan.all_but;
    const Position from = out.at;
    request.from = &from;
    request.horizon = &out.horizon;
    request.entries_max = plan.entries_max;
    request.bytes_max = plan.bytes_max;
    const Page page = ValueOrThrow(log.Read(request));
    EXPECT_TRUE(page.entries.size() <= 1 || page.bytes <= plan.bytes_max) << page.bytes;
    EXPECT_TRUE(std::ranges::is_sorted(page.entries, {}, &LogEntry::seq));
    for (const LogEntry& entry : page.entries) {
      out.events.push_back({entry, ValueOrThrow(ToEnvelope(entry.event))});
      out.events.back().entry.event = {};
    }
    if (!page.entries.empty()) ++out.pages;
    out.at = page.next;
    if (page.caught_up) return out;
  }
  ADD_FAILURE() << "reading does not come to an end";
  return out;
}

SettleReport SettleAt(OutboxLog& log, const std::vector<LaneGrant>& grants, const Position& position,
                      std::vector<ApartFlow> apart, const std::string& window) {
  SettleRequest request;
  for (const LaneGrant& grant : grants) {
    request.progress.push_back({grant.lease, LanePositions{position, apart}, window});
  }
  return ValueOrThrow(log.Settle(request));
}

ParkChange ParkOf(const std::vector<LaneGrant>& grants, const ReadEvent& event, ParkedState state) {
  ParkChange change;
  change.lease = LeaseFor(grants, event.entry);
  change.seq = event.entry.seq;
  change.place = event.entry.place;
  change.id = event.envelope.id;
  change.unit = event.envelope.key;
  change.tenant = event.envelope.tenant;
  change.topic = event.envelope.topic;
  change.key = event.envelope.key;
  change.appended_at = event.entry.appended_at;
  change.payload_bytes = static_cast<std::int64_t>(event.envelope.payload.size());
  change.state = state;
  return change;
}

ParkChange FailureOf(const std::vector<LaneGrant>& grants, const ReadEvent& event, ParkedState state,
                     std::int32_t attempts, const std::string& error_code) {
  ParkChange change = ParkOf(grants, event, state);
  change.attempts = attempts;
  change.error_code = error_code;
  change.error_message = "said " + error_code;
  return change;
}

}  // namespace sealane::testing
