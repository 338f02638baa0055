// What appending through Sealane costs the producer's transaction, against a plain INSERT of the same row into a
// plain table, side by side in one run. Both sides do the same transaction: BEGIN, one statement, COMMIT, on one
// connection per client, with the server's default durability, and both make, check and hash the same event.
//
// The plain table has the columns of the outbox and a primary key on the event id. Its INSERT is sent as Sealane
// sends its own: one PQexecParams with binary parameters, not prepared, from arrays for a batch. A batch is also
// compared with one INSERT of a VALUES list, prepared once per connection, and the faster of the two counts. A
// prepared single INSERT is shown for information: preparing ties an application to its server session, which poolers
// do not keep.
//
// emit(), which other languages call, is compared with an INSERT into the jsonb table that services make for
// themselves. Both are prepared once per connection and are a transaction of their own. What each costs inside a
// transaction is measured without a client, by a loop in the server.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <unistd.h>

#include "sealane/outbox.hpp"

#include "common/goals.hpp"
#include "common/stopwatch.hpp"
#include "core/lane.hpp"
#include "postgres/append_call.hpp"
#include "postgres/binary_format.hpp"
#include "postgres/postgres_store.hpp"

namespace {

using namespace sealane;
using namespace sealane::bench;

struct Arguments {
  bool json = false;
  bool long_run = false;
};

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_append: %s\n", what.c_str());
  std::exit(1);
}

class Session {
 public:
  explicit Session(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
    if (PQstatus(connection_) != CONNECTION_OK) Fail(PQerrorMessage(connection_));
  }
  ~Session() { PQfinish(connection_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  PGconn* get() const { return connection_; }

  std::string Exec(const std::string& sql) const {
    PGresult* const result = PQexec(connection_, sql.c_str());
    Check(result);
    std::string value = PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "";
    PQclear(result);
    return value;
  }
  void Check(const PGresult* result) const {
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) Fail(PQerrorMessage(connection_));
  }

 private:
  PGconn* connection_;
};

Event MakeEvent(std::uint64_t number) {
  return {.topic = "orders",
          .key = fmt::format("order-{}", number % 1'000),
          .type = "OrderPlaced",
          .payload = fmt::format(R"({{"order":{},"note":"{:x<250}"}})", number, ""),
          .tenant = "acme",
          .aggregate = {"order", fmt::format("order-{}", number % 1'000), std::nullopt},
          .correlation_id = "4bf92f3577b34da6a3ce929d0e0e4736"};
}

constexpr int kColumns = 23;  // what append_batch takes besides the three arrays for uniqueness

constexpr const char* kPlainTable = R"(
  CREATE TABLE plain_outbox (
    event_id uuid PRIMARY KEY, lane_hash int NOT NULL, tenant text NOT NULL, kind text NOT NULL, topic text NOT NULL,
    key text NOT NULL, type text NOT NULL, schema_version int NOT NULL, aggregate_type text, aggregate_id text,
    aggregate_version bigint, correlation_id text, causation_id text, traceparent text, tracestate text, producer text,
    schema_id text, content_type text NOT NULL, headers json NOT NULL, occurred_at timestamptz NOT NULL,
    available_at timestamptz, payload bytea NOT NULL, payload_hash bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()))";
constexpr const char* kColumnTypes[kColumns] = {
    "uuid", "int4", "text", "text", "text", "text", "text", "int4",        "text",        "text",  "int8", "text",
    "text", "text", "text", "text", "text", "text", "json", "timestamptz", "timestamptz", "bytea", "bytea"};
constexpr const char* kColumnNames =
    "event_id, lane_hash, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id, "
    "aggregate_version, correlation_id, causation_id, traceparent, tracestate, producer, schema_id, content_type, "
    "headers, "
    "occurred_at, available_at, payload, payload_hash";

std::string PlainValues(int rows) {
  std::string sql = fmt::format("INSERT INTO plain_outbox ({}) VALUES ", kColumnNames);
  for (int row = 0; row < rows; ++row) {
    sql += row == 0 ? "(" : ",(";
    for (int column = 0; column < kColumns; ++column) {
      sql += fmt::format("{}${}::{}", column == 0 ? "" : ",", row * kColumns + column + 1, kColumnTypes[column]);
    }
    sql += ")";
  }
  return sql;
}

std::string PlainArrays() {
  std::string sql = fmt::format("INSERT INTO plain_outbox ({}) SELECT * FROM unnest(", kColumnNames);
  for (int column = 0; column < kColumns; ++column) {
    sql += fmt::format("{}${}::{}[]", column == 0 ? "" : ",", column + 1, kColumnTypes[column]);
  }
  return sql + ")";
}

void RunParams(const Session& session, const std::string& sql, std::span<const Oid> types,
               const std::vector<const char*>& values, const std::vector<int>& lengths) {
  const std::vector<int> formats(values.size(), 1);
  PGresult* const result = PQexecParams(session.get(), sql.c_str(), static_cast<int>(values.size()), types.data(),
                                        values.data(), lengths.data(), formats.data(), 0);
  session.Check(result);
  PQclear(result);
}

void RunPrepared(const Session& session, const char* name, const std::vector<const char*>& values,
                 const std::vector<int>& lengths) {
  const std::vector<int> formats(values.size(), 1);
  PGresult* const result = PQexecPrepared(session.get(), name, static_cast<int>(values.size()), values.data(),
                                          lengths.data(), formats.data(), 0);
  session.Check(result);
  PQclear(result);
}

// The plain row has what the outbox's row has, so its client hashes the key. Sealane's server does that.
constexpr std::size_t kLaneHashColumn = 1;

postgres::BinaryCall EncodePlainRow(const NewEntry& entry) {
  postgres::BinaryCall call = postgres::EncodeAppendOne(entry);
  call.buffers[kLaneHashColumn] = postgres::BigEndian(std::int32_t{LaneHash(entry.envelope.key)});
  call.nulls[kLaneHashColumn] = false;
  return call;
}

postgres::BinaryCall EncodePlainArrays(const std::vector<NewEntry>& entries) {
  postgres::BinaryCall call = postgres::EncodeAppendBinary(entries);
  postgres::BinaryArray lanes(postgres::kInt4, entries.size());
  for (const NewEntry& entry : entries) lanes.Add(postgres::BigEndian(std::int32_t{LaneHash(entry.envelope.key)}));
  call.buffers[kLaneHashColumn] = lanes.bytes();
  call.nulls[kLaneHashColumn] = false;
  return call;
}

void InsertValues(const Session& session, const std::vector<NewEntry>& entries, bool prepared) {
  std::vector<postgres::BinaryCall> calls;
  std::vector<const char*> values;
  std::vector<int> lengths;
  calls.reserve(entries.size());
  for (const NewEntry& entry : entries) {
    const postgres::BinaryCall& call = calls.emplace_back(EncodePlainRow(entry));
    for (std::size_t i = 0; i < kColumns; ++i) {
      values.push_back(call.nulls[i] ? nullptr : call.buffers[i].data());
      lengths.push_back(static_cast<int>(call.buffers[i].size()));
    }
  }
  if (prepared) return RunPrepared(session, "plain_values", values, lengths);
  static const std::string kSql = PlainValues(1);
  RunParams(session, kSql, postgres::AppendOneTypes(), values, lengths);
}

void InsertArrays(const Session& session, const std::vector<NewEntry>& entries) {
  const postgres::BinaryCall call = EncodePlainArrays(entries);
  std::vector<const char*> values;
  std::vector<int> lengths;
  for (std::size_t i = 0; i < kColumns; ++i) {
    values.push_back(call.nulls[i] ? nullptr : call.buffers[i].data());
    lengths.push_back(static_cast<int>(call.buffers[i].size()));
  }
  static const std::string kSql = PlainArrays();
  RunParams(session, kSql, postgres::AppendTypes().first(kColumns), values, lengths);
}

enum class Way { kPlain, kPlainPrepared, kPlainArrays, kSealane, kPlainJsonb, kEmit };
constexpr std::size_t kWays = 6;

// What a service makes for itself.
constexpr const char* kJsonbTable = R"(
  CREATE TABLE plain_jsonb (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), topic text NOT NULL, key text NOT NULL, type text NOT NULL,
    payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now()))";
constexpr const char* kInsertJsonb =
    "INSERT INTO plain_jsonb (topic, key, type, payload) VALUES ({}, {}, {}, {}::jsonb)";
constexpr const char* kEmit = "{} sealane.emit(topic => {}, key => {}, type => {}, payload => {}::text)";

/// One prepared statement that is a transaction of its own.
void RunStatement(const Session& session, const char* name, const Event& event) {
  const char* const values[] = {event.topic.c_str(), event.key.c_str(), event.type.c_str(), event.payload.c_str()};
  PGresult* const result = PQexecPrepared(session.get(), name, 4, values, nullptr, nullptr, 0);
  session.Check(result);
  PQclear(result);
}

/// One transaction on one of the ways. Both sides pay for making the event and hashing it: a plain INSERT of the same
/// row carries the same id and hash.
void OneTransaction(Way way, const Session& session, const Outbox& outbox, std::vector<Event>& events,
                    std::uint64_t& number) {
  for (Event& event : events) event = MakeEvent(++number);
  if (way == Way::kPlainJsonb) return RunStatement(session, "plain_jsonb", events.front());
  if (way == Way::kEmit) return RunStatement(session, "emit", events.front());
  session.Exec("BEGIN");
  if (way == Way::kSealane) {
    const auto appended = outbox.AppendAll(session.get(), events);
    if (!appended) Fail(appended.error().ToString());
  } else {
    std::vector<NewEntry> entries;
    for (const Event& event : events) entries.push_back(*outbox.Admit(event));
    way == Way::kPlainArrays ? InsertArrays(session, entries)
                             : InsertValues(session, entries, way == Way::kPlainPrepared);
  }
  session.Exec("COMMIT");
}

struct Measured {
  double seconds_per_event = 0;
  double wal_bytes_per_event = 0;
};

class Clients {
 public:
  Clients(const std::string& url, int count, int batch) : url_(url), count_(count), batch_(batch) {
    for (int i = 0; i < count; ++i) {
      sessions_.push_back(std::make_unique<Session>(url));
      sessions_.back()->Exec(fmt::format("PREPARE plain_values AS {}", PlainValues(batch)));
      const std::string insert = fmt::format(fmt::runtime(kInsertJsonb), "$1", "$2", "$3", "$4");
      sessions_.back()->Exec("PREPARE plain_jsonb (text, text, text, text) AS " + insert);
      const std::string emit = fmt::format(fmt::runtime(kEmit), "SELECT", "$1", "$2", "$3", "$4");
      sessions_.back()->Exec("PREPARE emit (text, text, text, text) AS " + emit);
    }
  }

  Measured Run(Way way, std::chrono::milliseconds length) {
    Session control(url_);
    const std::string wal_before = control.Exec("SELECT pg_current_wal_insert_lsn()");
    std::atomic<std::uint64_t> events{0};
    std::atomic<bool> stop{false};
    std::latch start(count_ + 1);
    std::vector<std::thread> threads;
    for (int i = 0; i < count_; ++i) {
      threads.emplace_back([&, i] {
        std::vector<Event> batch(static_cast<std::size_t>(batch_));
        std::uint64_t number = static_cast<std::uint64_t>(i) << 40;
        std::uint64_t done = 0;
        start.arrive_and_wait();
        while (!stop) {
          OneTransaction(way, *sessions_[static_cast<std::size_t>(i)], outbox_, batch, number);
          done += batch.size();
        }
        events += done;
      });
    }
    const auto began = std::chrono::steady_clock::now();
    start.arrive_and_wait();
    std::this_thread::sleep_for(length);
    stop = true;
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    const double wal =
        std::stod(control.Exec(fmt::format("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{}')", wal_before)));
    const auto total = static_cast<double>(events.load());
    return {took.count() / total, wal / total};
  }

 private:
  std::string url_;
  int count_;
  int batch_;
  Outbox outbox_{{.producer = "bench"}};
  std::vector<std::unique_ptr<Session>> sessions_;
};

/// What was measured on some ways, round by round.
class Rounds {
 public:
  /// Rounds begin with another way each time and go forth and back, so that a slow spell of the machine or a
  /// checkpoint hits all; ratios are taken within a round, and the median of the rounds counts.
  template <class Run>
  Rounds(const std::vector<Way>& ways, int rounds, Run run) : measured_(kWays) {
    for (int i = -1; i < rounds; ++i) {
      for (std::size_t w = 0; w < ways.size(); ++w) {
        const std::size_t place = i % 2 == 0 ? w : ways.size() - 1 - w;
        const Way way = ways[(place + static_cast<std::size_t>(i + 1)) % ways.size()];
        const Measured measured = run(way, i < 0);
        if (i >= 0) measured_[static_cast<std::size_t>(way)].push_back(measured);  // before that: warm-up
      }
    }
  }

  double Seconds(Way way) const { return MedianOf(way, &Measured::seconds_per_event); }
  /// How many times as long as the other an event took.
  double Ratio(Way way, Way other) const {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < Of(way).size(); ++i) {
      ratios.push_back(Of(way)[i].seconds_per_event / Of(other)[i].seconds_per_event);
    }
    return Median(ratios);
  }
  void AddRow(Report& report, const std::string& label, Way way, int clients) const {
    if (Of(way).empty()) return;
    const double seconds = Seconds(way);
    report.Add(Row{label,
                   {fmt::format("{:.0f}", 1 / seconds), fmt::format("{:.1f}", seconds * 1e6 * clients),
                    fmt::format("{:.0f}", MedianOf(way, &Measured::wal_bytes_per_event))}});
  }

 private:
  const std::vector<Measured>& Of(Way way) const { return measured_[static_cast<std::size_t>(way)]; }
  double MedianOf(Way way, double Measured::*figure) const {
    std::vector<double> values;
    for (const Measured& measured : Of(way)) values.push_back(measured.*figure);
    return Median(values);
  }

  std::vector<std::vector<Measured>> measured_;
};

Rounds RunRounds(Clients& side, const std::vector<Way>& ways, const Arguments& arguments) {
  const auto length = std::chrono::milliseconds{arguments.long_run ? 3'000 : 700};
  return {ways, arguments.long_run ? 15 : 11,
          [&](Way way, bool warm_up) { return side.Run(way, warm_up ? std::chrono::milliseconds{200} : length); }};
}

void MeasureCase(const std::string& url, int clients, int batch, const Arguments& arguments, Report& report) {
  const std::string name = fmt::format("{}.{}", batch == 1 ? "single" : "batch", clients);
  Clients side(url, clients, batch);
  const Rounds rounds = RunRounds(side,
                                  batch == 1 ? std::vector{Way::kPlain, Way::kPlainPrepared, Way::kSealane}
                                             : std::vector{Way::kPlainPrepared, Way::kPlainArrays, Way::kSealane},
                                  arguments);
  Way plain = Way::kPlain;
  if (batch > 1) {
    plain = rounds.Seconds(Way::kPlainPrepared) < rounds.Seconds(Way::kPlainArrays) ? Way::kPlainPrepared
                                                                                    : Way::kPlainArrays;
  }
  rounds.AddRow(report, name + " plain INSERT", Way::kPlain, clients);
  rounds.AddRow(report, name + " plain INSERT, prepared", Way::kPlainPrepared, clients);
  rounds.AddRow(report, name + " plain INSERT from arrays", Way::kPlainArrays, clients);
  rounds.AddRow(report, name + " sealane", Way::kSealane, clients);
  report.Add(Goal{name, rounds.Ratio(Way::kSealane, plain), batch == 1 ? 1.25 : 1.15, true});
}

const std::vector<Way> kEmitWays = {Way::kPlainJsonb, Way::kEmit};

/// One event per transaction. The goal is a share of the plain table's rate.
void MeasureEmit(const std::string& url, int clients, const Arguments& arguments, Report& report) {
  const std::string name = fmt::format("emit.{}", clients);
  Clients side(url, clients, 1);
  const Rounds rounds = RunRounds(side, kEmitWays, arguments);
  rounds.AddRow(report, name + " plain jsonb INSERT", Way::kPlainJsonb, clients);
  rounds.AddRow(report, name + " sealane.emit()", Way::kEmit, clients);
  report.Add(Goal{name, rounds.Ratio(Way::kPlainJsonb, Way::kEmit), 0.8, false});
}

/// The server's own time for an event inside a transaction, in times of the plain INSERT's. An INSERT takes 13 us on
/// the machine whose goal is 40 us for emit(), so the goal is three times.
void MeasureEmitInside(const std::string& url, const Arguments& arguments, Report& report) {
  constexpr int kEvents = 2'000;
  const Session session(url);
  const auto loop = [&](const std::string& statement) {
    const Event event = MakeEvent(1);
    return fmt::format(
        "DO $$ DECLARE k text; p text := '{}'; BEGIN FOR i IN 1..{} LOOP k := 'order-' || i % 1000; "
        "{}; END LOOP; END $$",
        event.payload, kEvents, statement);
  };
  const std::string plain = loop(fmt::format(fmt::runtime(kInsertJsonb), "'orders'", "k", "'OrderPlaced'", "p"));
  const std::string emit = loop(fmt::format(fmt::runtime(kEmit), "PERFORM", "'orders'", "k", "'OrderPlaced'", "p"));
  const Rounds rounds(kEmitWays, arguments.long_run ? 61 : 31, [&](Way way, bool /*warm_up*/) {
    session.Exec("BEGIN");
    const std::string wal_before = session.Exec("SELECT pg_current_wal_insert_lsn()");
    const Stopwatch watch;
    session.Exec(way == Way::kEmit ? emit : plain);
    const double seconds = watch.seconds() / kEvents;
    const double wal =
        std::stod(session.Exec(fmt::format("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{}')", wal_before)));
    session.Exec("COMMIT");
    return Measured{seconds, wal / kEvents};
  });
  rounds.AddRow(report, "emit.inside plain jsonb INSERT", Way::kPlainJsonb, 1);
  rounds.AddRow(report, "emit.inside sealane.emit()", Way::kEmit, 1);
  report.Add(Goal{"emit.inside", rounds.Ratio(Way::kEmit, Way::kPlainJsonb), 3, true});
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--long") {
      arguments.long_run = true;
    } else if (argument == "-o" && i + 1 < argc) {
      arguments.json = std::string(argv[++i]) == "json";
    } else {
      Fail("usage: bench_append [-o json] [--long]");
    }
  }
  const char* const cluster = std::getenv("SEALANE_BENCH_POSTGRES");
  if (cluster == nullptr) Fail("run it with ./dev bench append (SEALANE_BENCH_POSTGRES names no server)");

  const std::string name = fmt::format("bench_append_{}", ::getpid());
  Session(cluster).Exec("CREATE DATABASE " + name);
  std::string url = cluster;
  url.replace(url.rfind('/') + 1, std::string::npos, name);
  {
    auto migrator = sealane::postgres::OpenMigrator({.url = url});
    if (!migrator) Fail(migrator.error().ToString());
    if (const auto applied = (*migrator)->Up(); !applied) Fail(applied.error().ToString());
    Session(url).Exec(kPlainTable);
    Session(url).Exec(kJsonbTable);

    sealane::bench::Report report("append", {"events/s", "us/event/client", "WAL B/event"});
    for (const int batch : {1, 100}) {
      for (const int clients : {1, 8}) {
        std::fprintf(stderr, "append: %s of %d, %d client%s ...\n", batch == 1 ? "single" : "batch", batch, clients,
                     clients == 1 ? "" : "s");
        MeasureCase(url, clients, batch, arguments, report);
      }
    }
    for (const int clients : {1, 8}) {
      std::fprintf(stderr, "append: emit(), %d client%s ...\n", clients, clients == 1 ? "" : "s");
      MeasureEmit(url, clients, arguments, report);
    }
    std::fprintf(stderr, "append: emit() inside a transaction ...\n");
    MeasureEmitInside(url, arguments, report);
    report.Print(arguments.json);
  }
  Session(cluster).Exec("DROP DATABASE " + name + " WITH (FORCE)");
  return 0;
}
