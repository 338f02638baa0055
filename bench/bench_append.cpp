// What appending through Sealane costs the producer's transaction, against a plain INSERT of the same row into a
// plain table, side by side in one run. Both sides do the same transaction: BEGIN, one statement, COMMIT, on one
// connection per client, with the server's default durability, and both make, check and hash the same event.
//
// The plain table has the columns of the outbox and a primary key on the event id. Its INSERT is sent as Sealane
// sends its own: one PQexecParams with binary parameters, not prepared, from arrays for a batch. A batch is also
// compared with one INSERT of a VALUES list, prepared once per connection, and the faster of the two counts. A
// prepared single INSERT is shown for information: preparing ties an application to its server session, which poolers
// do not keep.

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
#include "postgres/append_call.hpp"
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

void InsertValues(const Session& session, const std::vector<NewEntry>& entries, bool prepared) {
  std::vector<postgres::BinaryCall> calls;
  std::vector<const char*> values;
  std::vector<int> lengths;
  calls.reserve(entries.size());
  for (const NewEntry& entry : entries) {
    const postgres::BinaryCall& call = calls.emplace_back(postgres::EncodeAppendOne(entry));
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
  const postgres::BinaryCall call = postgres::EncodeAppendBinary(entries);
  std::vector<const char*> values;
  std::vector<int> lengths;
  for (std::size_t i = 0; i < kColumns; ++i) {
    values.push_back(call.nulls[i] ? nullptr : call.buffers[i].data());
    lengths.push_back(static_cast<int>(call.buffers[i].size()));
  }
  static const std::string kSql = PlainArrays();
  RunParams(session, kSql, postgres::AppendTypes().first(kColumns), values, lengths);
}

enum class Way { kPlain, kPlainPrepared, kPlainArrays, kSealane };
constexpr std::size_t kWays = 4;

/// One transaction on one of the ways. Both sides pay for making the event and hashing it: a plain INSERT of the same
/// row carries the same id and hash.
void OneTransaction(Way way, const Session& session, const Outbox& outbox, std::vector<Event>& events,
                    std::uint64_t& number) {
  for (Event& event : events) event = MakeEvent(++number);
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

void MeasureCase(const std::string& url, int clients, int batch, const Arguments& arguments, Report& report) {
  const std::string name = fmt::format("{}.{}", batch == 1 ? "single" : "batch", clients);
  Clients side(url, clients, batch);
  const auto round = std::chrono::milliseconds{arguments.long_run ? 3'000 : 700};
  const int rounds = arguments.long_run ? 15 : 11;
  // Rounds begin with another way each time and go forth and back, so that a slow spell of the machine or a
  // checkpoint hits all; the ratio to the faster plain way is taken within a round, and the median of the rounds
  // counts.
  const std::vector<Way> ways = batch == 1 ? std::vector{Way::kPlain, Way::kPlainPrepared, Way::kSealane}
                                           : std::vector{Way::kPlainPrepared, Way::kPlainArrays, Way::kSealane};
  std::vector<std::vector<double>> times(kWays);
  std::vector<std::vector<double>> wal(kWays);
  for (int i = -1; i < rounds; ++i) {
    for (std::size_t w = 0; w < ways.size(); ++w) {
      const std::size_t place = i % 2 == 0 ? w : ways.size() - 1 - w;
      const Way way = ways[(place + static_cast<std::size_t>(i + 1)) % ways.size()];
      const auto index = static_cast<std::size_t>(way);
      const Measured measured = side.Run(way, i < 0 ? std::chrono::milliseconds{200} : round);
      if (i < 0) continue;  // warm-up
      times[index].push_back(measured.seconds_per_event);
      wal[index].push_back(measured.wal_bytes_per_event);
    }
  }
  const auto times_of = [&](Way way) -> const std::vector<double>& { return times[static_cast<std::size_t>(way)]; };
  Way plain = Way::kPlain;
  if (batch > 1) {
    plain = Median(times_of(Way::kPlainPrepared)) < Median(times_of(Way::kPlainArrays)) ? Way::kPlainPrepared
                                                                                        : Way::kPlainArrays;
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rounds); ++i) {
    ratios.push_back(times_of(Way::kSealane)[i] / times_of(plain)[i]);
  }
  const auto add = [&](const char* label, Way way) {
    const auto index = static_cast<std::size_t>(way);
    if (times[index].empty()) return;
    const double seconds = Median(times[index]);
    report.Add(Row{fmt::format("{} {}", name, label),
                   {fmt::format("{:.0f}", 1 / seconds), fmt::format("{:.1f}", seconds * 1e6 * clients),
                    fmt::format("{:.0f}", Median(wal[index]))}});
  };
  add("plain INSERT", Way::kPlain);
  add("plain INSERT, prepared", Way::kPlainPrepared);
  add("plain INSERT from arrays", Way::kPlainArrays);
  add("sealane", Way::kSealane);
  report.Add(Goal{name, Median(ratios), batch == 1 ? 1.25 : 1.15, true});
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

    sealane::bench::Report report("append", {"events/s", "us/event/client", "WAL B/event"});
    for (const int batch : {1, 100}) {
      for (const int clients : {1, 8}) {
        std::fprintf(stderr, "append: %s of %d, %d client%s ...\n", batch == 1 ? "single" : "batch", batch, clients,
                     clients == 1 ? "" : "s");
        MeasureCase(url, clients, batch, arguments, report);
      }
    }
    report.Print(arguments.json);
  }
  Session(cluster).Exec("DROP DATABASE " + name + " WITH (FORCE)");
  return 0;
}
