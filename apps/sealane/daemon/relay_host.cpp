#include "daemon/relay_host.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <pthread.h>

#include "base/log.hpp"

namespace sealane::cli {

/// One route and its thread.
class RelayHost::Runner {
 public:
  Runner(RouteSetup setup, std::unique_ptr<RouteWork> work, bool until_drained, const std::function<void()>& ended)
      : setup_(std::move(setup)),
        work_(std::move(work)),
        thread_([this, until_drained, &ended](std::stop_token stop) {
          if (work_->Run(std::move(stop), until_drained) == RelayEnd::kUnresolved) unresolved_ = true;
          over_ = true;
          ended();
        }) {
    // The kernel keeps 15 characters; the route tells more than the store.
    ::pthread_setname_np(thread_.native_handle(), ("relay-" + setup_.options.route).substr(0, 15).c_str());
  }

  const RouteSetup& setup() const { return setup_; }
  RouteWork& work() const { return *work_; }
  void RequestStop() { thread_.request_stop(); }
  bool over() const { return over_; }
  bool unresolved() const { return unresolved_; }

  std::optional<RouteSetup> successor = {};  ///< to be started when this one is over
  bool removed = false;

 private:
  const RouteSetup setup_;
  const std::unique_ptr<RouteWork> work_;
  std::atomic<bool> over_{false};
  std::atomic<bool> unresolved_{false};
  std::jthread thread_;  // last: it uses everything above
};

RelayHost::RelayHost(MakeRouteWork make, std::function<void()> ended)
    : make_(std::move(make)), ended_(std::move(ended)) {}

RelayHost::~RelayHost() {
  RequestStop();
  runners_.clear();
}

Status RelayHost::Check(const std::vector<RouteSetup>& setups) const {
  for (const RouteSetup& setup : setups) {
    auto checked = make_(setup)->Check();
    if (checked) continue;
    if (checked.error().kind() == ErrorKind::kMisconfigured) {
      return std::move(checked).error().WithContext(fmt::format("on route {}", setup.label()));
    }
    LogWarning("not reachable yet, the relay keeps trying", {{"store", setup.options.store},
                                                             {"route", setup.options.route},
                                                             {"code", checked.error().code()},
                                                             {"error", checked.error().ToString()}});
  }
  return Ok();
}

void RelayHost::Launch(const RouteSetup& setup, bool until_drained) {
  auto runner = std::make_unique<Runner>(setup, make_(setup), until_drained, ended_);
  const std::lock_guard lock(mutex_);
  runners_.push_back(std::move(runner));
}

void RelayHost::Start(const std::vector<RouteSetup>& setups, bool until_drained) {
  for (const RouteSetup& setup : setups) Launch(setup, until_drained);
}

ReloadReport RelayHost::Reload(const std::vector<RouteSetup>& setups) {
  ReloadReport report;
  std::vector<const RouteSetup*> fresh;
  for (const RouteSetup& setup : setups) fresh.push_back(&setup);
  {
    const std::lock_guard lock(mutex_);
    for (const auto& runner : runners_) {
      const std::string label = runner->setup().label();
      const auto found =
          std::find_if(fresh.begin(), fresh.end(), [&](const RouteSetup* setup) { return setup->label() == label; });
      if (found == fresh.end()) {
        runner->removed = true;
        runner->successor.reset();
        runner->RequestStop();
        report.removed.push_back(label);
        continue;
      }
      const RouteSetup& setup = **found;
      fresh.erase(found);
      // One that is on its way out already gets the newest successor.
      const bool leaving = runner->removed || runner->successor.has_value();
      if (!leaving && setup.fingerprint == runner->setup().fingerprint) {
        ++report.unchanged;
        continue;
      }
      runner->removed = false;
      runner->successor = setup;
      runner->RequestStop();
      report.restarted.push_back(label);
    }
  }
  for (const RouteSetup* setup : fresh) {
    report.added.push_back(setup->label());
    Launch(*setup, false);
  }
  return report;
}

void RelayHost::RequestStop() {
  const std::lock_guard lock(mutex_);
  for (const auto& runner : runners_) {
    runner->successor.reset();
    runner->RequestStop();
  }
}

void RelayHost::Tend() {
  std::vector<std::unique_ptr<Runner>> over;
  {
    const std::lock_guard lock(mutex_);
    for (auto& runner : runners_) {
      if (runner->over()) over.push_back(std::move(runner));
    }
    std::erase(runners_, nullptr);
    for (const auto& runner : over) {
      if (!runner->successor && !runner->removed) last_words_.push_back(runner->work().stats());
    }
  }
  // Outside of the lock: Stats() goes on while a thread is joined and the next one starts.
  for (const auto& runner : over) {
    // What it left without an answer is its successor's to send again.
    if (runner->unresolved() && !runner->successor) left_unresolved_ = true;
    if (runner->successor) Launch(*runner->successor, false);
  }
}

bool RelayHost::Idle() const {
  const std::lock_guard lock(mutex_);
  return runners_.empty();
}

std::vector<RouteStats> RelayHost::Stats() const {
  const std::lock_guard lock(mutex_);
  std::vector<RouteStats> stats;
  for (const auto& runner : runners_) stats.push_back(runner->work().stats());
  stats.insert(stats.end(), last_words_.begin(), last_words_.end());
  return stats;
}

void RelayHost::Wake() const {
  const std::lock_guard lock(mutex_);
  for (const auto& runner : runners_) runner->work().Wake();
}

}  // namespace sealane::cli
