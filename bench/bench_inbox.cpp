// What the inbox costs beside the effects themselves: our consumer against a bare loop that does the same upserts in
// as many transactions over as many connections and remembers nothing, on the same messages, in one run. From memory,
// from Kafka, and from SQLite's journal; then what is written per event, and memory over a million events.
// docs/benchmarks.md explains the figures.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "base/log.hpp"
#include "bench_inbox/bare_kafka.hpp"
#include "bench_inbox/contestant.hpp"
#include "bench_inbox/our_consumer.hpp"
#include "bench_inbox/scene.hpp"
#include "common/contest.hpp"
#include "common/goals.hpp"
#include "common/kafka_topic.hpp"

namespace {

using namespace sealane;
using namespace sealane::bench;

struct Arguments {
  bool json = false;
  bool long_run = false;
  std::size_t events = 40'000;  ///< with 200 per transaction; fewer where transactions are smaller
  int rounds = 5;
  std::string only = {};  ///< one part; empty: all
};

/// So much more memory after 1,000,000 events than after 250,000 is a leak.
constexpr double kGrowthMaxMib = 8;

class InboxBench {
 public:
  InboxBench(std::string cluster_url, std::string broker_url, const Arguments& arguments)
      : cluster_url_(std::move(cluster_url)), broker_url_(std::move(broker_url)), arguments_(arguments) {}

  int Run() {
    if (Wants("postgres")) MeasurePostgres();
    if (Wants("kafka") && HasKafka()) MeasureKafka();
    if (Wants("sqlite")) MeasureSqlite();
    if (arguments_.long_run || arguments_.only == "memory") MeasureMemory();
    if (!arguments_.json && !bars_.empty()) PrintChart("events per second", bars_);
    report_.Print(arguments_.json);
    if (grew_) std::fprintf(stderr, "inbox: MEMORY GROWS by more than %.0f MiB\n", kGrowthMaxMib);
    return grew_ ? 1 : 0;
  }

 private:
  bool Wants(const std::string& part) const { return arguments_.only.empty() || arguments_.only == part; }

  bool HasKafka() const {
    if (broker_url_.empty()) std::fprintf(stderr, "inbox: NO KAFKA: its part is left out; ./dev setup gets it\n");
    return !broker_url_.empty();
  }

  /// Small transactions are slow: fewer events take as long.
  std::size_t EventsFor(std::size_t batch) const {
    const std::size_t events = batch == 1    ? arguments_.events / 20
                               : batch < 100 ? arguments_.events / 2
                                             : arguments_.events;
    return std::max<std::size_t>(events, 200);
  }

  std::string DatabaseName(const char* part) const { return fmt::format("bench_inbox_{}_{}", ::getpid(), part); }

  /// What the laps of one label wrote per event.
  struct Writes {
    std::vector<double> wal;
    std::vector<double> rows;
    std::vector<double> server_us;
  };

  static Lap RunOn(PostgresScene& scene, Contestant contestant, Writes& writes) {
    contestant.store = scene.url();
    scene.Reset();
    const Lap lap = RunAlone(contestant);
    const PostgresScene::Written written = scene.Count();
    const auto events = static_cast<double>(contestant.events);
    writes.wal.push_back(written.wal_bytes / events);
    writes.rows.push_back(written.rows / events);
    writes.server_us.push_back(written.cpu_seconds * 1e6 / events);
    scene.Check(contestant.events);
    return lap;
  }

  static Lap RunOn(const SqliteScene& scene, Contestant contestant) {
    contestant.store = scene.store();
    scene.Reset();
    const Lap lap = RunAlone(contestant);
    scene.Check(contestant.events);
    return lap;
  }

  void AddRow(const Contest& contest, const std::string& label, const std::string& bare, const Writes& writes) {
    const double rate = contest.RateOf(label);
    const auto written = [](const std::vector<double>& values, const char* form) {
      return values.empty() ? std::string() : fmt::format(fmt::runtime(form), Median(values));
    };
    report_.Add(Row{label,
                    {fmt::format("{:.0f}", rate), fmt::format("{:.2f}", contest.Ratio(label, bare)),
                     label == bare ? "" : fmt::format("{:+.1f}", contest.MoreMicroseconds(label, bare)),
                     fmt::format("{:.1f}", contest.CpuOf(label)), written(writes.server_us, "{:.1f}"),
                     written(writes.wal, "{:.0f}"), written(writes.rows, "{:.2f}")}});
    bars_.push_back({label, rate});
  }

  /// The ways at one number of events per transaction and of connections, against the bare loop among them.
  void MeasureOn(PostgresScene& scene, const std::vector<std::string>& ways, const Contestant& shape,
                 const std::string& prefix) {
    Contest contest("inbox");
    std::map<std::string, Writes> writes;
    const auto label = [&](const std::string& way) {
      return fmt::format("{}batch {}, {} connection{}: {}", prefix, shape.batch, shape.workers,
                         shape.workers == 1 ? "" : "s", way);
    };
    for (const std::string& way : ways) {
      Contestant contestant = shape;
      contestant.way = way;
      contest.Add(label(way),
                  [&scene, &writes, contestant] { return RunOn(scene, contestant, writes[contestant.way]); });
    }
    contest.Run(arguments_.rounds);
    for (const std::string& way : ways) AddRow(contest, label(way), label("bare"), writes[way]);
    const std::string name =
        fmt::format("{}{}.batch_{}", prefix.empty() ? "postgres" : "kafka",
                    shape.workers == 1 ? "" : fmt::format(".workers_{}", shape.workers), shape.batch);
    if (shape.batch == 200) {
      report_.Add(Goal{name + ".offsets.of_bare", contest.Ratio(label("offsets"), label("bare")), 0.80, false});
    }
  }

  void MeasurePostgres() {
    PostgresScene scene(cluster_url_, DatabaseName("memory"));
    for (const std::size_t workers : {1, 4}) {
      for (const std::size_t batch : {1, 50, 200}) {
        MeasureOn(scene, {"bare", "pipelined", "offsets", "record", "offsets-awaited"},
                  {.way = {}, .store = {}, .events = EventsFor(batch), .batch = batch, .workers = workers}, "");
      }
    }
  }

  void MeasureKafka() {
    PostgresScene scene(cluster_url_, DatabaseName("kafka"));
    const FreshTopic topic(broker_url_);
    std::fprintf(stderr, "inbox: writing %zu messages to Kafka ...\n", EventsFor(200));
    FillTopic(broker_url_, topic.name(), EventsFor(200));
    for (const std::size_t workers : {1, 4}) {
      MeasureOn(scene, {"bare", "offsets", "record", "offsets-awaited"},
                {.way = {},
                 .store = {},
                 .source = broker_url_,
                 .topic = topic.name(),
                 .events = EventsFor(200),
                 .batch = 200,
                 .workers = workers},
                "from Kafka, ");
    }
  }

  void MeasureSqlite() {
    const SqliteScene scene;
    for (const std::size_t batch : {1, 200}) {
      Contest contest("inbox");
      const std::size_t events = EventsFor(batch);
      const auto label = [&](const std::string& way) { return fmt::format("SQLite, batch {}: {}", batch, way); };
      const auto add = [&](const std::string& name, const std::string& way, const std::string& source) {
        const Contestant contestant{.way = way, .store = {}, .source = source, .events = events, .batch = batch};
        contest.Add(label(name), [&scene, contestant] { return RunOn(scene, contestant); });
      };
      scene.FillJournal(batch == 1 ? events : events - EventsFor(1));
      add("bare", "bare", "memory");
      add("offsets", "offsets", "memory");
      add("record", "record", "memory");
      add("offsets from a journal", "offsets", scene.journal());
      add("record from a journal", "record", scene.journal());
      contest.Run(arguments_.rounds);
      for (const char* way : {"bare", "offsets", "record", "offsets from a journal", "record from a journal"}) {
        AddRow(contest, label(way), label("bare"), {});
      }
    }
  }

  void MeasureMemory() {
    const std::size_t events = std::max<std::size_t>(arguments_.events, arguments_.long_run ? 1'000'000 : 0);
    for (const char* mode : {"offsets", "record"}) {
      PostgresScene scene(cluster_url_, DatabaseName("watched"));
      scene.Reset();
      std::fprintf(stderr, "inbox: memory over %zu events, %s ...\n", events, mode);
      const Contestant contestant{.way = mode, .store = scene.url(), .events = events, .batch = 200, .workers = 4};
      std::vector<std::size_t> at;
      for (const std::size_t share : {10, 25, 50, 100}) at.push_back(events * share / 100);
      const std::vector<MemoryMark> marks = WatchConsumer(contestant, at);
      scene.Check(events);
      std::string line;
      for (const MemoryMark& mark : marks)
        line += fmt::format("{}{:.1f} MiB at {}", line.empty() ? "" : ", ", mark.mib, mark.events);
      std::fprintf(stderr, "inbox: memory, %s: %s\n", mode, line.c_str());
      const double growth = marks.back().mib - marks[1].mib;
      const Goal goal{fmt::format("memory.{}.growth_mib", mode), growth, kGrowthMaxMib, true};
      grew_ = grew_ || !goal.ok();
      report_.Add(goal);
      report_.Add(Row{fmt::format("memory, {}: {}", mode, line), {}});
    }
  }

  const std::string cluster_url_;
  const std::string broker_url_;
  const Arguments arguments_;
  bool grew_ = false;
  Report report_{
      "inbox",
      {"events/s", "of bare", "us/event more", "CPU us/event", "server us/ev.", "WAL B/event", "rows/event"}};
  std::vector<Bar> bars_;
};

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--long") {
      arguments.long_run = true;
    } else if (argument == "-o" && has_value) {
      arguments.json = std::string(argv[++i]) == "json";
    } else if (argument == "--events" && has_value) {
      arguments.events = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--rounds" && has_value) {
      arguments.rounds = std::atoi(argv[++i]);
    } else if (argument == "--only" && has_value) {
      arguments.only = argv[++i];
    } else {
      arguments.events = 0;
    }
  }
  if (arguments.events == 0 || arguments.rounds < 1) {
    Fail("usage: bench_inbox [-o json] [--long] [--events N] [--rounds N] [--only postgres|kafka|sqlite|memory]");
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  sealane::Logger::Instance().SetLevel(sealane::LogLevel::kWarning);
  if (argc > 1 && std::string(argv[1]) == "--alone") return sealane::bench::BeAlone(argc, argv);
  const Arguments arguments = Parse(argc, argv);
  const char* const cluster = std::getenv("SEALANE_BENCH_POSTGRES");
  if (cluster == nullptr) Fail("run it with ./dev bench inbox (SEALANE_BENCH_POSTGRES names no server)");
  const char* const broker = std::getenv("SEALANE_BENCH_KAFKA");
  WarnWhenBusy("inbox");
  return InboxBench(cluster, broker == nullptr ? "" : broker, arguments).Run();
}
