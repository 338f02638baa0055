// Dead keys at a consumer, and a consumer whose every event fails, beside healthy traffic.

#include <algorithm>
#include <cmath>

#include "bench_isolation/stage.hpp"
#include "common/stopwatch.hpp"

namespace sealane::bench {
namespace {

using std::chrono::seconds;

/// A consumer's store: a table for effects and healthy traffic.
class ConsumerSide {
 public:
  ConsumerSide(Stage& stage, const Database& database, std::string consumer)
      : stage_(stage),
        database_(database),
        session_(database.url()),
        consumer_(std::move(consumer)),
        script_(WriteFile(database.name() + "." + consumer_ + ".sql",
                          fmt::format("insert into {} (key) values (:key);\n", table()))) {
    session_.Exec(fmt::format(
        "create table {} (key text not null, at timestamptz not null default clock_timestamp())", table()));
    probe_ = std::make_unique<ConsumerProbe>(database.url(), stage.broker_url(), table());
  }

  std::string table() const { return "effect_" + consumer_; }
  const Session& session() const { return session_; }
  ConsumerProbe& probe() { return *probe_; }
  Sealane& process() { return *process_; }
  const std::string& consumer() const { return consumer_; }

  /// Also reads these topics, with these further arguments.
  void Read(std::vector<std::string> topics, std::vector<std::string> arguments = {}) {
    topics_ = std::move(topics);
    arguments_ = std::move(arguments);
  }
  bool Start(bool await_flow = true) {
    Stop();
    std::vector<std::string> command = {"consume",    "--store", database_.url(), "--broker", stage_.broker_url(),
                                        "--consumer", consumer_, "--sql",         script_,    "--log-level",
                                        "warning",    "--topic", probe_->topic()};
    for (const std::string& topic : topics_) command.insert(command.end(), {"--topic", topic});
    command.insert(command.end(), arguments_.begin(), arguments_.end());
    process_ = std::make_unique<Sealane>(command);
    const bool flows = !await_flow || probe_->AwaitFlow(seconds{60});
    if (!process_->Runs()) Fail("the consumer ended: " + process_->LogEnd());
    if (!flows) stage_.Say("no event comes through the consumer within 60 s: {}", process_->LogEnd());
    return flows;
  }
  void Stop() { process_.reset(); }
  Latency Lap(double length) {
    Start();
    PauseFor(2);
    const Latency latency = LapWithCost(database_, *process_, *probe_, length);
    Stop();
    return latency;
  }
  CostMeter::Cost IdleCost(double length) {
    PauseFor(3);
    const CostMeter meter(database_, {process_.get()});
    PauseFor(length);
    return meter.Read();
  }
  double Dead() const {
    return session_.Number(
        fmt::format("select count(*) from sealane.inbox_parked where consumer = '{}' and state = 'DEAD'", consumer_));
  }
  double Effects(const std::string& prefix) const {
    return session_.Number(fmt::format("select count(distinct key) from {} where key like '{}-%'", table(), prefix));
  }

 private:
  Stage& stage_;
  const Database& database_;
  Session session_;
  std::string consumer_;
  std::string script_;
  std::vector<std::string> topics_;
  std::vector<std::string> arguments_;
  std::unique_ptr<ConsumerProbe> probe_;
  std::unique_ptr<Sealane> process_;
};

}  // namespace

void RunDeadConsumer(Stage& stage) {
  const auto calm_store = stage.MakeStore();
  const auto dead_store = stage.MakeStore();
  ConsumerSide none(stage, *calm_store, "billing");
  ConsumerSide parked(stage, *dead_store, "billing_dead");  // the name is also the group's at the broker
  const std::size_t again = stage.Scaled(20'000, 100);
  const std::size_t rest = stage.Scaled(100'000, 500) - again;
  const FreshTopic redriven(stage.broker_url());
  const FreshTopic blocked(stage.broker_url());
  parked.session().Exec(
      fmt::format("alter table {} add constraint refuses check (key not like 'bad-%')", parked.table()));
  parked.Read({redriven.name(), blocked.name()}, stage.options().consume_arguments);
  stage.Say("dead-consumer: {} events of as many keys that the table refuses ...", again + rest);
  ProduceAll(stage.broker_url(), redriven.name(), "bad-r", again);
  ProduceAll(stage.broker_url(), blocked.name(), "bad-b", rest);
  const Stopwatch dying;
  parked.Start(false);
  const seconds limit{60 + static_cast<long>(again + rest) / 200};
  const bool all = WaitFor(
      limit, [&] { return parked.Dead() >= static_cast<double>(again + rest); }, seconds{1});
  stage.Say("dead-consumer: {:.0f} events are dead after {:.0f} s{}", parked.Dead(), dying.seconds(),
            all ? "" : ": NOT ALL; --consume-args can raise the limits of the consumer");
  parked.Stop();
  parked.session().Exec("vacuum analyze");

  const double length = stage.Seconds(20, 4);
  const Comparison laps = Compare(
      stage.options().rounds, [&] { return none.Lap(length); }, [&] { return parked.Lap(length); });
  AddComparison(stage, "dead-consumer", laps, 1.5);
  stage.AddGoal("dead-consumer.p50", laps.P50(), 1.5);
  stage.AddGoal("dead-consumer.p99", laps.P99(), 1.5);

  const auto idle = [&](ConsumerSide& side, const char* label) {
    side.Start();
    const CostMeter::Cost cost = side.IdleCost(stage.Seconds(20, 5));
    AddIdle(stage, label, cost, side.process().PeakMib());
    return cost;
  };
  const CostMeter::Cost before = idle(none, "dead-consumer: idle, none parked");
  none.Stop();
  const CostMeter::Cost after = idle(parked, "dead-consumer: idle, all parked");
  stage.AddGoal("dead-consumer.idle_cpu_more", after.processes() - before.processes(), 0.01);
  stage.AddGoal("dead-consumer.idle_server_cpu_more", after.server_share - before.server_share, 0.01);

  parked.session().Exec(fmt::format("alter table {} drop constraint refuses", parked.table()));
  MeasureRedrive(stage,
                 {.name = "dead-consumer",
                  .command = {"inbox", "retry", "--consumer", parked.consumer(), "--topic", redriven.name(),
                              "--reason", "bench", "--actor", "bench", "--yes", "--store", dead_store->url()},
                  .count = again,
                  .arrived = [&] { return parked.Effects("bad-r"); },
                  .healthy_lap = [&](const GoOn& go_on) { return parked.probe().Lap(go_on); }},
                 laps.without);
}

void RunBadDeploy(Stage& stage) {
  const auto store = stage.MakeStore();
  ConsumerSide good(stage, *store, "report");
  ConsumerSide bad(stage, *store, "billing_bad");
  const std::size_t count = stage.Scaled(5'000, 1'000);
  const FreshTopic orders(stage.broker_url());
  ProduceAll(stage.broker_url(), orders.name(), "order", count);
  bad.session().Exec(fmt::format("alter table {} add constraint bad_deploy check (false)", bad.table()));
  bad.Read({orders.name()});

  good.Start();
  PauseFor(2);
  const double length = stage.Seconds(20, 6);
  const Latency before = good.probe().Lap(For(length));
  stage.Say("bad-deploy: a consumer whose every event fails, {} events ...", count);
  bad.Start(false);
  const Latency beside = good.probe().Lap(For(length));
  // Until no further event dies, or all are dead.
  double dead = bad.Dead();
  for (int i = 0; i < 60; ++i) {
    PauseFor(2);
    const double now = bad.Dead();
    if (now == dead) break;
    dead = now;
  }
  const double failed = bad.session().Number(
      fmt::format("select count(*) from sealane.inbox_parked where consumer = '{}'", bad.consumer()));
  stage.AddLaps("bad-deploy: other consumer, before", {before});
  stage.AddLaps("bad-deploy: other consumer, beside", {beside});
  stage.Add(fmt::format("bad-deploy: {:.0f} of {} events dead, {:.0f} parked", dead, count, failed), {});
  stage.AddGoal("bad-deploy.other_p99", beside.p99_ms / before.p99_ms, 1.5);
  // The limit is a setting; whatever it is, a bad deploy must not turn a topic into dead events.
  stage.AddGoal("bad-deploy.dead_share", dead / static_cast<double>(count), 0.2);

  stage.Say("bad-deploy: mended; it goes on by itself or after inbox retry ...");
  bad.session().Exec(fmt::format("alter table {} drop constraint bad_deploy", bad.table()));
  const Stopwatch mending;
  if (!bad.process().Runs()) bad.Start(false);
  const auto rest = static_cast<double>(count) - failed;
  const bool resumed = WaitFor(
      seconds{60}, [&] { return bad.Effects("order") >= rest; }, std::chrono::milliseconds{200});
  const double resumed_after = mending.seconds();
  if (dead > 0) {
    RunSealane({"inbox", "retry", "--consumer", bad.consumer(), "--all", "--reason", "mended", "--actor", "bench",
                "--yes", "--store", store->url()});
  }
  WaitFor(
      seconds{120}, [&] { return bad.Effects("order") >= static_cast<double>(count); },
      std::chrono::milliseconds{200});
  const double applied = bad.Effects("order");
  stage.Add(fmt::format("bad-deploy: {:.0f} events had not failed, {}; all applied after {:.1f} s", rest,
                        resumed ? fmt::format("applied after {:.1f} s", resumed_after) : "NOT APPLIED in 60 s",
                        mending.seconds()),
            {.rate = applied / mending.seconds()});
  stage.AddGoal("bad-deploy.applied_share", applied / static_cast<double>(count), 1, false);
}

}  // namespace sealane::bench
