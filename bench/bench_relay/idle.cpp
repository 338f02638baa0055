#include "bench_relay/idle.hpp"

#include <memory>
#include <thread>

#include <fmt/format.h>

#include "common/stopwatch.hpp"

namespace sealane::bench {
namespace {

/// Waits until the relay has lanes, has nothing left, and looks at the log as rarely as it ever will.
void AwaitIdle(const RouteRelay& relay) {
  for (int attempt = 0; attempt < 60; ++attempt) {
    const RouteStats before = relay.stats();
    std::this_thread::sleep_for(std::chrono::seconds{1});
    const RouteStats after = relay.stats();
    if (after.state == RelayState::kRunning && after.pending == 0 && after.polls > before.polls &&
        after.polls - before.polls <= 5) {
      return;
    }
  }
  Fail("the relay does not become idle within a minute");
}

/// While it lives, on the benchmark's own cluster.
class AutovacuumOff {
 public:
  explicit AutovacuumOff(const Session& session) : session_(session) {
    session_.Exec("alter system set autovacuum = off");
    session_.Exec("select pg_reload_conf()");
    std::this_thread::sleep_for(std::chrono::seconds{2});  // for workers that run already, and for their statistics
  }
  ~AutovacuumOff() {
    session_.Exec("alter system reset autovacuum");
    session_.Exec("select pg_reload_conf()");
  }
  AutovacuumOff(const AutovacuumOff&) = delete;
  AutovacuumOff& operator=(const AutovacuumOff&) = delete;

 private:
  const Session& session_;
};

}  // namespace

IdleCost MeasureIdle(const Database& database, const Destination& destination, std::chrono::seconds length) {
  const std::unique_ptr<RouteRelay> relay =
      MakeRelay(database.url(), FreshRoute(destination), PublisherTo(destination));
  std::jthread running([&](const std::stop_token& stop) { (void)relay->Run(stop); });
  AwaitIdle(*relay);
  // From another database of the cluster, so that asking is not counted. A relay that is idle makes every statement a
  // transaction of its own.
  const Session outside(database.cluster_url());
  // Autovacuum's transactions on the fresh tables would be counted too.
  const AutovacuumOff off(outside);
  const auto transactions = [&] {
    return outside.Number(fmt::format("select xact_commit + xact_rollback from pg_stat_database where datname = '{}'",
                                      database.name()));
  };
  const double transactions_before = transactions();
  const double cpu_before = CpuSeconds();
  std::this_thread::sleep_for(length);
  const double cpu = CpuSeconds() - cpu_before;
  const double statements = transactions() - transactions_before;
  const auto seconds = static_cast<double>(length.count());
  return {.cpu_share = cpu / seconds, .statements_per_second = statements / seconds};
}

}  // namespace sealane::bench
