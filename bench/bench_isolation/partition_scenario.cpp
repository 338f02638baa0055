// Many daily partitions against few, and whether housekeeping makes writers wait.

#include <algorithm>
#include <string_view>

#include "bench_isolation/stage.hpp"
#include "common/stopwatch.hpp"

namespace sealane::bench {
namespace {

/// Daily partitions into the past until there are `count`, as the product makes them. Does nothing to a log that has
/// no partitions by time.
void MakePartitions(const Session& session, int count) {
  const auto have = [&] {
    return static_cast<int>(
        session.Number("select count(*) from pg_inherits where inhparent = 'sealane.outbox'::regclass"));
  };
  session.Exec("set timezone = 'UTC'");
  // From the day before the oldest there is; a few per transaction, because each takes locks.
  for (int day = 3; have() < count && day < count + 400; day += 20) {
    session.Exec(fmt::format(R"(
      do $$
      declare
        day date;
      begin
        for i in {} .. {} loop
          day := current_date - i;
          if to_regclass('sealane.outbox_p' || to_char(day, 'YYYYMMDD')) is null
             and (select count(*) from pg_inherits where inhparent = 'sealane.outbox'::regclass) < {} then
            execute format('create table sealane.%I partition of sealane.outbox for values from (%L) to (%L)',
                           'outbox_p' || to_char(day, 'YYYYMMDD'), day::timestamptz, (day + 1)::timestamptz);
          end if;
        end loop;
      end $$)",
                             day, day + 19, count));
  }
}

bool IsPartitionedByTime(const Session& session) {
  return session.Number(
             "select count(*) from pg_partitioned_table p join pg_attribute a on a.attrelid = p.partrelid"
             "   and a.attnum = p.partattrs[0]"
             " where p.partrelid = 'sealane.outbox'::regclass and a.atttypid = 'timestamptz'::regtype") > 0;
}

/// What a writer sees that makes one small transaction after the other.
struct Writing {
  double rate = 0;
  double longest_ms = 0;
  std::size_t lock_waits = 0;  ///< for more than 50 ms, by the server's own words
};

/// Writes one row in the open transaction.
using Write = std::function<void(const Session&, std::size_t)>;

void AppendByLibrary(const Session& session, std::size_t number) {
  static const Outbox outbox{{.producer = "bench"}};
  const auto appended = outbox.Append(session.get(), MakeEvent("orders", "p", number % 5'000));
  if (!appended) Fail(appended.error().ToString());
}

void AppendByEmit(const Session& session, std::size_t number) {
  const Event event = MakeEvent("orders", "p", number % 5'000);
  session.Exec(fmt::format("select sealane.emit(topic => '{}', key => '{}', type => '{}', payload => '{}')",
                           event.topic, event.key, event.type, event.payload));
}

constexpr std::size_t kWarmUp = 20;

/// For so many seconds. Commits do not wait for the disk, so that what shows is the work and the locks.
Writing WriteFor(double seconds, const std::string& url, const Write& write) {
  const Session session(url);
  Writing result;
  // A busy machine makes a commit slow as well; that it was a lock only the server can tell.
  PQsetNoticeReceiver(
      session.get(),
      [](void* count, const PGresult* notice) {
        const char* const text = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
        if (text != nullptr && std::string_view(text).find("still waiting for") != std::string_view::npos) {
          ++*static_cast<std::size_t*>(count);
        }
      },
      &result.lock_waits);
  for (const char* setting : {"synchronous_commit = off", "deadlock_timeout = '50ms'", "log_lock_waits = on",
                              "client_min_messages = log"}) {
    session.Exec(fmt::format("set {}", setting));
  }
  std::size_t count = 0;
  // What a connection learns with its first rows is measured apart.
  session.Exec("begin");
  for (; count < kWarmUp; ++count) write(session, count);
  session.Exec("commit");
  const GoOn go_on = For(seconds);  // from here on, however long connecting took
  const Stopwatch watch;
  while (go_on()) {
    const Stopwatch one;
    session.Exec("begin");
    write(session, count++);
    session.Exec("commit");
    result.longest_ms = std::max(result.longest_ms, one.seconds() * 1'000);
  }
  result.rate = watch.RateOf(count - kWarmUp);
  return result;
}

/// Connections a second that append one event each.
double RateOfNewConnections(const std::string& url, const GoOn& go_on) {
  std::size_t count = 0;
  const Stopwatch watch;
  while (go_on()) {
    const Session session(url);
    session.Exec("set synchronous_commit = off");
    AppendByEmit(session, count++);
  }
  return watch.RateOf(count);
}

/// Events per second of a relay that drains what is there to nowhere, its start included.
double DrainRate(Stage& stage, const Database& store) {
  const std::size_t count = stage.Scaled(500'000, 10'000);
  AppendMany(store.url(), count, [](std::size_t i) { return MakeEvent("orders", "p", i % 5'000); });
  Session(store.url()).Exec("vacuum analyze");
  const Stopwatch watch;
  Sealane relay({"relay", "--store", store.url(), "--broker", "null:", "--listen", "off", "--until", "drained",
                 "--log-level", "warning"});
  if (relay.Wait(std::chrono::minutes{5}) != 0) {
    stage.Say("partitions: the relay did not drain: {}", relay.LogEnd());
    return 0;
  }
  return watch.RateOf(count);
}

/// A partitioned table that housekeeping works on.
struct Log {
  const char* name;
  std::string fill;  ///< writes rows of long ago, from {} to {}
  Write write;
};

bool HasDefault(const Session& session, const char* table) {
  return session.Number(fmt::format(
             "select count(*) from pg_partitioned_table where partdefid <> 0 and partrelid = '{}'::regclass",
             table)) > 0;
}

/// A relay and a consumer find the last two days missing and make them. A log with a default partition has rows in
/// it, and receipts of old events are written to it.
void MeasureWriterWait(Stage& stage, const Log& log) {
  const auto store = stage.MakeStore();
  const Session session(store->url());
  session.Exec("insert into sealane.inbox_consumer (name, mode) values ('old', 'record')");
  if (HasDefault(session, log.name)) {
    const std::size_t rows = stage.Scaled(4'000'000, 10'000);
    constexpr std::size_t kChunk = 100'000;
    stage.Say("partitions: {} rows in the default partition of {} ...", rows, log.name);
    for (std::size_t done = 0; done < rows; done += kChunk) {
      session.Exec(fmt::format(fmt::runtime(log.fill), done + 1, std::min(done + kChunk, rows)));
    }
    session.Exec("vacuum analyze");
  }
  RunSealane(
      {"route", "add", "fresh", "--from", "now", "--reason", "bench", "--actor", "bench", "--store", store->url()});
  const std::string config =
      WriteFile("partitions.toml", fmt::format("[store]\nurl = \"{}\"\n[broker]\nurl = \"null:\"\n[relay]\n"
                                               "listen = \"off\"\n[route.fresh]\n",
                                               store->url()));
  const std::string script = WriteFile("partitions.sql", "select :key;\n");
  const double length = stage.Seconds(20, 5);
  std::vector<double> calm;
  std::vector<double> longest;
  std::size_t lock_waits = 0;
  const auto partitions = [&] {
    return session.Number(fmt::format("select count(*) from pg_inherits where inhparent = '{}'::regclass", log.name));
  };
  for (int round = 0; round < stage.options().rounds; ++round) {
    calm.push_back(WriteFor(length, store->url(), log.write).longest_ms);
    const double before = partitions();
    for (int i = 0; i < 2; ++i) {
      const std::string last = session.Exec(
          fmt::format("select max(inhrelid::regclass::text) from pg_inherits join pg_class c on c.oid = inhrelid"
                      " where inhparent = '{}'::regclass and c.relname ~ '_p[0-9]{{8}}$'",
                      log.name));
      if (!last.empty()) session.Exec("drop table " + last);
    }
    Sealane relay({"relay", "--config", config, "--log-level", "warning"});
    Sealane consumer({"consume", "--store", store->url(), "--broker", "journal:" + TemporaryFolder() + "/journal.db",
                      "--consumer", "new", "--topic", "orders", "--sql", script, "--log-level", "warning"});
    const Writing beside = WriteFor(length, store->url(), log.write);
    longest.push_back(beside.longest_ms);
    lock_waits += beside.lock_waits;
    if (!relay.Runs()) stage.Say("partitions: the relay ended: {}", relay.LogEnd());
    if (!consumer.Runs()) stage.Say("partitions: the consumer ended: {}", consumer.LogEnd());
    if (partitions() < before) {
      stage.Say("partitions: {} has {:.0f} partitions instead of {:.0f}: housekeeping has not made them", log.name,
                partitions(), before);
    }
  }
  stage.Add(fmt::format("partitions: longest write to {}, calm", log.name), {.p99 = *std::ranges::max_element(calm)});
  stage.Add(fmt::format("partitions: longest write to {} beside housekeeping", log.name),
            {.p99 = *std::ranges::max_element(longest)});
  const std::string_view name = std::string_view(log.name).substr(std::string_view("sealane.").size());
  stage.AddGoal(fmt::format("partitions.{}_lock_waits_over_50_ms", name), static_cast<double>(lock_waits), 0);
}

}  // namespace

void RunPartitions(Stage& stage) {
  const auto few = stage.MakeStore();
  const auto many = stage.MakeStore();
  if (IsPartitionedByTime(Session(few->url()))) {
    constexpr int kFew = 30;
    constexpr int kMany = 1'000;  // at every scale: making them takes seconds
    stage.Say("partitions: {} against {} ...", kFew, kMany);
    MakePartitions(Session(few->url()), kFew);
    MakePartitions(Session(many->url()), kMany);
    const auto compare = [&](const char* label, const char* goal, int turns,
                             const std::function<double(const Database&)>& rate) {
      std::vector<double> rates_few;
      std::vector<double> rates_many;
      std::vector<double> ratios;
      for (int turn = 0; turn < turns; ++turn) {
        if (turn % 2 == 0) rates_few.push_back(rate(*few));
        rates_many.push_back(rate(*many));
        if (turn % 2 == 1) rates_few.push_back(rate(*few));
        ratios.push_back(rates_many.back() / rates_few.back());
      }
      stage.Add(fmt::format("partitions: {}, {}", label, kFew), {.rate = Median(rates_few)});
      stage.Add(fmt::format("partitions: {}, {}", label, kMany), {.rate = Median(rates_many)});
      stage.AddGoal(goal, Median(ratios), 0.9, false);
    };
    // Many short turns: a slow spell of the machine hits both.
    const int many_turns = 5 * stage.options().rounds;
    const double length = stage.Seconds(2, 0.5);
    compare("append by the library", "partitions.append", many_turns,
            [&](const Database& store) { return WriteFor(length, store.url(), AppendByLibrary).rate; });
    compare("append by emit", "partitions.emit", many_turns,
            [&](const Database& store) { return WriteFor(length, store.url(), AppendByEmit).rate; });
    compare("connections that emit once", "partitions.new_connection", many_turns,
            [&](const Database& store) { return RateOfNewConnections(store.url(), For(length)); });
    compare("relay", "partitions.relay", stage.options().rounds,
            [&](const Database& store) { return DrainRate(stage, store); });
  } else {
    stage.Say("partitions: the log has no partitions by time: nothing to compare");
  }

  MeasureWriterWait(stage,
                    {"sealane.outbox",
                     "insert into sealane.outbox (appended_at, occurred_at, event_id, schema_version,"
                     "  payload_size, lane, kind, tenant, topic, key, type, content_type, headers, payload_hash,"
                     "  payload)"
                     " select '2020-01-01', '2020-01-01', gen_random_uuid(), 1, 2, n % 64, 'event', '',"
                     "  'orders', 'k-' || n, 'T', 'application/json', '{{}}', '\\x00', '\\x7b7d'"
                     " from generate_series({}, {}) n",
                     AppendByLibrary});
  constexpr const char* kReceipt =
      "insert into sealane.inbox (consumer, event_id, filed_at, received_at, state, topic, partition, \"offset\","
      "  payload_hash)"
      " select 'old', gen_random_uuid(), {}, clock_timestamp(), 'PROCESSED', 'orders', 0, n, '\\x00'"
      " from generate_series({}, {}) n";
  const bool old = HasDefault(Session(few->url()), "sealane.inbox");
  MeasureWriterWait(stage, {"sealane.inbox", fmt::format(kReceipt, "'2020-01-01'::timestamptz", "{}", "{}"),
                            [&](const Session& session, std::size_t number) {
                              session.Exec(fmt::format(
                                  kReceipt, old ? "'2020-01-01'::timestamptz" : "clock_timestamp()", number, number));
                            }});
}

}  // namespace sealane::bench
