// What must be forgotten, and a system that has nothing to do.

#include <algorithm>
#include <array>

#include <sqlite3.h>

#include "bench_isolation/stage.hpp"
#include "common/stopwatch.hpp"

namespace sealane::bench {
namespace {

using std::chrono::seconds;

/// How long housekeeping is watched at most: two rounds of one a minute, and a bit; one at small scales.
seconds WatchTime(const Stage& stage) {
  return seconds{static_cast<long>(stage.Seconds(130, 70))};
}

constexpr double kHour = 3'600;
constexpr std::size_t kExpired = 8'000'000;

/// One kind of rows that are past their time.
struct Expired {
  std::string kind;
  std::string table;
  std::string condition;  ///< rows that are past their time
  std::size_t rows = 0;
  double left = 0;
};

/// Rows written the way the product writes them, but long ago. Nothing but SQL can do that.
void FillExpired(const Session& session, const std::vector<Expired>& kinds) {
  constexpr std::size_t kChunk = 200'000;
  const auto chunks = [&](std::size_t rows, const std::string& statement) {
    for (std::size_t done = 0; done < rows; done += kChunk) {
      session.Exec(fmt::format(fmt::runtime(statement), done + 1, std::min(done + kChunk, rows)));
    }
  };
  chunks(kinds[0].rows,
         "insert into sealane.outbox_unique (fingerprint, event_id, created_at, kind)"
         " select gen_random_uuid(), gen_random_uuid(), clock_timestamp() - interval '90 days', 'd'"
         " from generate_series({}, {})");
  chunks(kinds[1].rows,
         "insert into sealane.idempotency (tenant, key, request_hash, claimed_at, patience_until, expires_at,"
         "  completed_at, status, body)"
         " select 'bench', 'key-' || n, md5(n::text), t, t, t, t, 200, '{{}}'"
         " from generate_series({}, {}) n, (select clock_timestamp() - interval '2 days') as past(t)");
  session.Exec(
      "insert into sealane.inbox_consumer (name, mode, created_at)"
      " values ('bench', 'record', clock_timestamp() - interval '90 days')");
  chunks(kinds[2].rows,
         "insert into sealane.inbox (consumer, event_id, filed_at, received_at, finished_at, state, topic, partition,"
         "  \"offset\", payload_hash)"
         " select 'bench', gen_random_uuid(), t, t, t, 'PROCESSED', 'orders', 0, n, sha256(n::text::bytea)"
         " from generate_series({}, {}) n, (select clock_timestamp() - interval '40 days') as past(t)");
  session.Exec("vacuum analyze");
  session.Exec("checkpoint");
}

void MeasureExpired(Stage& stage) {
  const auto store = stage.MakeStore();
  const Session session(store->url());
  std::vector<Expired> kinds = {
      {"fingerprints", "sealane.outbox_unique", "created_at < clock_timestamp() - interval '60 days'",
       stage.Scaled(kExpired / 2, 40'000)},
      {"keys", "sealane.idempotency", "expires_at < clock_timestamp()", stage.Scaled(kExpired / 4, 20'000)},
      {"receipts", "sealane.inbox", "filed_at < clock_timestamp() - interval '35 days'",
       stage.Scaled(kExpired / 4, 20'000)}};
  stage.Say("expired: {} fingerprints, {} idempotency keys, {} receipts ...", kinds[0].rows, kinds[1].rows,
            kinds[2].rows);
  FillExpired(session, kinds);
  const FreshTopic topic(stage.broker_url());
  const std::string script = WriteFile("expired.sql", "select :key;\n");
  // The clock runs from the start of the programs, so that their first round counts.
  const Stopwatch watch;
  Sealane relay({"relay", "--store", store->url(), "--broker", stage.broker_url(), "--listen", "off", "--log-level",
                 "warning"});
  Sealane consumer({"consume", "--store", store->url(), "--broker", stage.broker_url(), "--consumer", "bench",
                    "--topic", topic.name(), "--sql", script, "--log-level", "warning"});
  const CostMeter meter(*store, {&relay, &consumer});
  const auto some_left = [&](const Expired& kind) {
    return session.Exec(fmt::format("select exists (select from {} where {})", kind.table, kind.condition)) == "t";
  };
  std::vector<double> took(kinds.size(), 0);
  WaitFor(
      WatchTime(stage),
      [&] {
        bool gone = true;
        for (std::size_t i = 0; i < kinds.size(); ++i) {
          if (took[i] == 0 && !some_left(kinds[i])) took[i] = watch.seconds();
          gone = gone && took[i] > 0;
        }
        return gone;
      },
      std::chrono::milliseconds{500});
  const double all = watch.seconds();
  const CostMeter::Cost cost = meter.Read();
  double deleted_all = 0;
  double rows_all = 0;
  double slowest = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const auto rows = static_cast<double>(kinds[i].rows);
    kinds[i].left =
        session.Number(fmt::format("select count(*) from {} where {}", kinds[i].table, kinds[i].condition));
    const double rate = (rows - kinds[i].left) / (took[i] > 0 ? took[i] : all);
    // What the full number would take at this rate; what deletes nothing takes for ever.
    const double full = static_cast<double>(kExpired) / (i == 0 ? 2 : 4);
    slowest = std::max(slowest, rate > 0 ? full / rate : 1e9);
    deleted_all += rows - kinds[i].left;
    rows_all += rows;
    stage.Add(fmt::format("expired: {} deleted, {:.0f} of {:.0f} left", kinds[i].kind, kinds[i].left, rows),
              {.rate = rate});
  }
  // If all were deleted at this cost and the work were spread over the hour.
  const double cpu = (cost.processes() + cost.server_share) * cost.seconds / std::max(deleted_all, 1.0) *
                     static_cast<double>(kExpired) / kHour;
  stage.Add(
      fmt::format("expired: relay and consumer, {:.0f} of {:.0f} rows in {:.0f} s", deleted_all, rows_all, all),
      {.cpu = cost.processes(), .server = cost.server_share, .mib = std::max(relay.PeakMib(), consumer.PeakMib())});
  stage.AddGoal("expired.seconds", slowest, kHour);
  stage.AddGoal("expired.cpu_over_the_hour", cpu, 0.1);
  stage.AddGoal("expired.leases_lost", relay.LogLinesWith("lease") + (relay.Runs() ? 0 : 1), 0);
  if (relay.LogLinesWith("lease") > 0) stage.Say("expired: the relay said: {}", relay.LogEnd());
}

void Check(int code, sqlite3* database) {
  if (code != SQLITE_OK) Fail(fmt::format("SQLite: {}", sqlite3_errmsg(database)));
}

/// One SQLite file; closed when it is not used.
class SqliteFile {
 public:
  explicit SqliteFile(const std::string& path) {
    Check(sqlite3_open(path.c_str(), &database_), database_);
    sqlite3_busy_timeout(database_, 30'000);
  }
  ~SqliteFile() { sqlite3_close(database_); }
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  double Exec(const std::string& sql) const {
    double value = 0;
    const auto note = [](void* out, int columns, char** values, char**) {
      if (columns > 0 && values[0] != nullptr) *static_cast<double*>(out) = std::atof(values[0]);
      return 0;
    };
    Check(sqlite3_exec(database_, sql.c_str(), note, &value, nullptr), database_);
    return value;
  }

 private:
  sqlite3* database_ = nullptr;
};

void MeasureExpiredSqlite(Stage& stage) {
  const std::string path = TemporaryFolder() + "/expired.db";
  RunSealane({"migrate", "up", "--store", "sqlite:" + path});
  const std::size_t rows = stage.Scaled(kExpired / 8, 20'000);  // what takes longer is extrapolated
  stage.Say("expired: {} fingerprints in SQLite ...", rows);
  const SqliteFile file(path);
  file.Exec(
      fmt::format("with recursive n(i) as (select 1 union all select i + 1 from n where i < {})"
                  " insert into sealane_outbox_unique (kind, fingerprint, event_id, created_at)"
                  " select 'd', lower(hex(randomblob(16))), lower(hex(randomblob(16))), 1000000 + i from n",
                  rows));
  const auto left = [&] { return file.Exec("select count(*) from sealane_outbox_unique"); };
  Sealane relay(
      {"relay", "--store", "sqlite:" + path, "--broker", "null:", "--listen", "off", "--log-level", "warning"});
  const Stopwatch watch;
  const double cpu_before = CpuSecondsOf(relay.pid());
  WaitFor(
      WatchTime(stage), [&] { return left() == 0; }, std::chrono::milliseconds{500});
  const double took = watch.seconds();
  const double cpu = CpuSecondsOf(relay.pid()) - cpu_before;
  const double deleted = static_cast<double>(rows) - left();
  const double rate = deleted / took;
  stage.Add(fmt::format("expired: SQLite fingerprints deleted, {:.0f} of {} in {:.0f} s", deleted, rows, took),
            {.rate = rate, .cpu = cpu / took, .mib = relay.PeakMib()});
  stage.AddGoal("expired.sqlite_seconds", rate > 0 ? static_cast<double>(kExpired) / rate : 1e9, kHour);
  stage.AddGoal("expired.sqlite_cpu_over_the_hour",
                cpu / std::max(deleted, 1.0) * static_cast<double>(kExpired) / kHour, 0.1);
}

}  // namespace

void RunExpired(Stage& stage) {
  MeasureExpired(stage);
  MeasureExpiredSqlite(stage);
}

void RunIdle(Stage& stage) {
  RelaySide side(stage);
  const std::string script = WriteFile("idle.sql", "select :key;\n");
  side.Start();
  const std::vector<std::string> common = {"--store", side.url(), "--log-level", "warning"};
  const auto start = [&](std::vector<std::string> command) {
    command.insert(command.end(), common.begin(), common.end());
    return std::make_unique<Sealane>(command);
  };
  const auto consumer = start({"consume", "--consumer", "idle", "--topic", side.probe().topic(), "--broker",
                               stage.broker_url(), "--sql", script});
  const auto tasks = start({"tasks", "run", "--target", "none=http://127.0.0.1:9"});
  const auto dashboard = start({"dashboard", "--listen", "127.0.0.1:0"});
  side.probe().Lap(For(2));  // an idle system is one that has worked
  // The first write to a page after a checkpoint costs a page of WAL, and autovacuum works for what was before.
  side.session().Exec("vacuum analyze");
  side.session().Exec("checkpoint");
  const double length = stage.Seconds(60, 15);
  stage.Say("idle: relay, consumer, tasks and dashboard, {:.0f} s ...", length);
  PauseFor(10);
  const CostMeter meter(side.database(), {&side.relay(), consumer.get(), tasks.get(), dashboard.get()});
  PauseFor(length);
  const CostMeter::Cost cost = meter.Read();
  constexpr std::array kNames = {"relay", "consumer", "tasks", "dashboard"};
  const std::array<Sealane*, 4> processes = {&side.relay(), consumer.get(), tasks.get(), dashboard.get()};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (!processes[i]->Runs()) Fail(fmt::format("the {} ended: {}", kNames[i], processes[i]->LogEnd()));
    stage.Add(fmt::format("idle: {}", kNames[i]), {.cpu = cost.process_shares[i], .mib = processes[i]->PeakMib()});
    stage.AddGoal(fmt::format("idle.{}_cpu", kNames[i]), cost.process_shares[i], 0.01);
  }
  stage.Add("idle: all four",
            {.rate = cost.transactions / cost.seconds, .cpu = cost.processes(), .server = cost.server_share});
  stage.AddGoal("idle.wal_kb_per_minute", cost.wal_bytes / 1'000 * 60 / cost.seconds, 20);
  stage.AddGoal("idle.transactions_per_second", cost.transactions / cost.seconds, 10);
}

}  // namespace sealane::bench
