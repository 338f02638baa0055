// How fast the relay is against what is possible and against what others do, on the same rows, in one run: reading
// alone, our drain to nothing, the textbook relay with SKIP LOCKED and a status column, librdkafka alone, a bare loop
// from the table to Kafka without any bookkeeping, our drain to Kafka; then the latency from commit to
// acknowledgement, memory, and what an idle relay costs. docs/benchmarks.md explains the figures.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "base/log.hpp"
#include "bench_relay/backlog.hpp"
#include "bench_relay/bare_message.hpp"
#include "bench_relay/idle.hpp"
#include "bench_relay/lap.hpp"
#include "bench_relay/latency.hpp"
#include "common/contest.hpp"
#include "common/goals.hpp"
#include "common/kafka_topic.hpp"

namespace {

using namespace sealane;
using namespace sealane::bench;

struct Arguments {
  bool json = false;
  std::size_t events = 300'000;
  std::string only = {};  ///< one part; empty: all
};

// Debezium Server 3.0.8 with tuned queues, measured once on two cores with the same kind of events. Recorded, not
// measured in this run.
constexpr double kDebeziumRate = 29'400;
constexpr double kDebeziumMib = 763;
constexpr double kMemoryMax = 64;  // MiB

constexpr int kRounds = 5;
constexpr int kReferenceRounds = 3;  // the slow one

class RelayBench {
 public:
  RelayBench(const std::string& cluster_url, std::string broker_url, const Arguments& arguments)
      : broker_url_(std::move(broker_url)),
        arguments_(arguments),
        database_(cluster_url, fmt::format("bench_relay_{}", ::getpid())),
        session_(database_.url()) {}

  void Run() {
    std::fprintf(stderr, "relay: writing %zu events ...\n", arguments_.events);
    FillOutbox(session_, database_.url(), arguments_.events);
    if (Wants("table")) MeasureTable();
    if (Wants("reference")) MeasureReference();
    if (broker_url_.empty()) {
      std::fprintf(stderr, "relay: NO KAFKA: everything about Kafka is left out; ./dev setup gets it\n");
    } else {
      if (Wants("kafka")) MeasureKafka();
      if (Wants("latency")) MeasureLatency();
    }
    if (Wants("idle")) MeasureIdleRelay();
    if (!arguments_.json && !bars_.empty()) PrintChart("events per second", bars_);
    report_.Print(arguments_.json);
  }

 private:
  bool Wants(const std::string& part) const { return arguments_.only.empty() || arguments_.only == part; }

  void AddRate(const std::string& label, const Contest& contest, const std::vector<std::string>& more = {}) {
    const double rate = contest.RateOf(label);
    std::vector<std::string> figures = {fmt::format("{:.0f}", rate), fmt::format("{:.2f}", contest.CpuOf(label))};
    figures.insert(figures.end(), more.begin(), more.end());
    figures.resize(6);
    figures.push_back(fmt::format("{:.0f}", contest.PeakMibOf(label)));
    report_.Add(Row{label, std::move(figures)});
    bars_.push_back({label, rate});
  }

  /// Runs `run` and notes what was written per event.
  Lap Watched(const char* schema, const char* way, std::vector<double>& wal, std::vector<double>& dead) {
    const Writes writes(session_, schema);
    const Lap lap = Alone(way);
    wal.push_back(writes.wal_bytes() / static_cast<double>(arguments_.events));
    dead.push_back(writes.dead_rows() / static_cast<double>(arguments_.events));
    return lap;
  }

  Lap Alone(const char* way, const Destination& destination = {}) const {
    return RunAlone(way, database_.url(), destination, arguments_.events);
  }

  void MeasureTable() {
    Contest contest("relay");
    contest.Add("raw read, SELECT", [&] { return Alone("select"); });
    contest.Add("raw read, COPY", [&] { return Alone("copy"); });
    contest.Add("sealane to nothing", [&] { return Alone("drain"); });
    contest.Run(kRounds);
    const std::string raw =
        contest.RateOf("raw read, COPY") > contest.RateOf("raw read, SELECT") ? "raw read, COPY" : "raw read, SELECT";
    for (const char* label : {"raw read, SELECT", "raw read, COPY", "sealane to nothing"}) {
      AddRate(label, contest);
    }
    report_.Add(Goal{"null.of_raw_read", contest.Ratio("sealane to nothing", raw), 0.80, false});
    report_.Add(Goal{"null.peak_mib", contest.PeakMibOf("sealane to nothing"), kMemoryMax, true});
  }

  void MeasureReference() {
    std::vector<double> our_wal, our_dead, wal, dead;
    Contest contest("relay");
    contest.Add("sealane, writes counted", [&] { return Watched(kSchema, "drain", our_wal, our_dead); });
    contest.Add("SKIP LOCKED + UPDATE", [&] {
      FillReferenceTable(session_);
      return Watched(kReferenceSchema, "skip-locked", wal, dead);
    });
    contest.Run(kReferenceRounds);
    const auto add = [&](const char* label, const std::vector<double>& bytes, const std::vector<double>& rows) {
      AddRate(label, contest, {fmt::format("{:.2f}", Median(bytes)), fmt::format("{:.5f}", Median(rows))});
    };
    add("sealane, writes counted", our_wal, our_dead);
    add("SKIP LOCKED + UPDATE", wal, dead);
    report_.Add(Goal{"skip_locked.rate", contest.Ratio("sealane, writes counted", "SKIP LOCKED + UPDATE"), 5, false});
    report_.Add(Goal{"skip_locked.wal", Median(our_wal) / Median(wal), 0.05, true});
  }

  /// On a topic that is checked to hold every event afterwards.
  Lap ToKafka(const char* way, WireProfile profile) const {
    const FreshTopic topic(broker_url_);
    const Lap lap = Alone(way, {broker_url_, topic.name(), profile});
    if (const std::size_t count = topic.Count(); count != arguments_.events) {
      Fail(fmt::format("the topic holds {} messages instead of {}", count, arguments_.events));
    }
    return lap;
  }

  void MeasureKafka() {
    CheckBareMessages(database_.url());
    struct Way {
      const char* label;
      const char* way;
      WireProfile profile;
    };
    constexpr std::array kWays = {Way{"librdkafka alone", "memory", WireProfile::kCloudEvents},
                                  Way{"bare loop to Kafka", "bare", WireProfile::kCloudEvents},
                                  Way{"sealane to Kafka", "drain", WireProfile::kCloudEvents},
                                  Way{"sealane to Kafka, envelope", "drain", WireProfile::kEnvelope},
                                  Way{"sealane to Kafka, as Debezium", "drain", WireProfile::kDebezium}};
    Contest contest("relay");
    for (const Way& way : kWays) contest.Add(way.label, [this, way] { return ToKafka(way.way, way.profile); });
    contest.Run(kRounds);
    for (const Way& way : kWays) AddRate(way.label, contest);
    report_.Add(Row{"Debezium Server (recorded)",
                    {fmt::format("{:.0f}", kDebeziumRate), "", "", "", "", "", fmt::format("{:.0f}", kDebeziumMib)}});
    bars_.push_back({"Debezium Server (recorded)", kDebeziumRate});
    const double mib = contest.PeakMibOf("sealane to Kafka");
    report_.Add(Goal{"kafka.of_bare_loop", contest.Ratio("sealane to Kafka", "bare loop to Kafka"), 0.80, false});
    report_.Add(
        Goal{"kafka.versus_debezium", contest.RateOf("sealane to Kafka, as Debezium") / kDebeziumRate, 5, false});
    report_.Add(Goal{"kafka.peak_mib", mib, kMemoryMax, true});
    report_.Add(Goal{"kafka.memory_of_debezium", mib / kDebeziumMib, 0.1, true});
  }

  void MeasureLatency() {
    const auto add = [&](const char* label, const Latency& latency) {
      report_.Add(Row{label,
                      {fmt::format("{:.0f}", latency.rate), "", "", "", fmt::format("{:.2f}", latency.p50_ms),
                       fmt::format("{:.2f}", latency.p99_ms)}});
    };
    const auto commit_to_ack = [&](bool bell) {
      const Database database(database_.cluster_url(), database_.name() + (bell ? "_bell" : "_poll"));
      FillOutbox(Session(database.url()), database.url(), 0);
      return CommitToAck({.url = database.url(), .broker_url = broker_url_}, bell);
    };
    std::fprintf(stderr, "relay: latency at 1,000 events/s, three times 10 s ...\n");
    const Latency broker = ProduceToAck({.url = {}, .broker_url = broker_url_});
    const Latency bell = commit_to_ack(true);
    const Latency poll = commit_to_ack(false);
    add("latency: librdkafka, produce to ack", broker);
    add("latency: sealane, commit to ack, bell", bell);
    add("latency: sealane, commit to ack, polling", poll);
    // The ratios below say something only when the writer kept the pace.
    report_.Add(Goal{"latency.events_per_second", std::min(bell.rate, poll.rate), 950, false});
    report_.Add(Goal{"latency.bell.p50", bell.p50_ms / broker.p50_ms, 3, true});
    report_.Add(Goal{"latency.bell.p99", bell.p99_ms / broker.p99_ms, 10, true});
    report_.Add(Goal{"latency.polling.p50", poll.p50_ms / broker.p50_ms, 3, true});
    report_.Add(Goal{"latency.polling.p99", poll.p99_ms / broker.p99_ms, 10, true});
  }

  void MeasureIdleRelay() {
    std::fprintf(stderr, "relay: idle for 10 s ...\n");
    const Database database(database_.cluster_url(), database_.name() + "_idle");
    FillOutbox(Session(database.url()), database.url(), 0);
    const IdleCost idle = MeasureIdle(database, {.broker_url = broker_url_}, std::chrono::seconds{10});
    report_.Add(Goal{"idle.cpu_share", idle.cpu_share, 0.01, true});
    report_.Add(Goal{"idle.statements_per_second", idle.statements_per_second, 5, true});
  }

  const std::string broker_url_;
  const Arguments arguments_;
  const Database database_;
  const Session session_;
  Report report_{"relay", {"events/s", "CPU us/event", "WAL B/event", "dead/event", "p50 ms", "p99 ms", "peak MiB"}};
  std::vector<Bar> bars_;
};

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--long") {
      arguments.events = 1'000'000;
    } else if (argument == "-o" && has_value) {
      arguments.json = std::string(argv[++i]) == "json";
    } else if (argument == "--events" && has_value) {
      arguments.events = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--only" && has_value) {
      arguments.only = argv[++i];
    } else {
      arguments.events = 0;
    }
  }
  if (arguments.events == 0) {
    Fail("usage: bench_relay [-o json] [--long] [--events N] [--only table|reference|kafka|latency|idle]");
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  sealane::Logger::Instance().SetLevel(sealane::LogLevel::kWarning);
  if (argc > 1 && std::string(argv[1]) == "--alone") return sealane::bench::BeAlone(argc, argv);
  const Arguments arguments = Parse(argc, argv);
  const char* const cluster = std::getenv("SEALANE_BENCH_POSTGRES");
  if (cluster == nullptr) Fail("run it with ./dev bench relay (SEALANE_BENCH_POSTGRES names no server)");
  const char* const broker = std::getenv("SEALANE_BENCH_KAFKA");
  WarnWhenBusy("relay");
  RelayBench(cluster, broker == nullptr ? "" : broker, arguments).Run();
  return 0;
}
