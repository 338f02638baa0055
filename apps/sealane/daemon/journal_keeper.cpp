#include "daemon/journal_keeper.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include <pthread.h>

#include "base/log.hpp"
#include "broker_factory.hpp"

namespace sealane::cli {
namespace {

// Longer than a publisher waits before it tries again.
constexpr std::chrono::milliseconds kStepPause{25};

std::string AbsolutePath(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
  return failed ? path : absolute.lexically_normal().string();
}

}  // namespace

void JournalKeeper::RunOnce(std::stop_token stop) const {
  const JournalRetention retention{.age_max = std::chrono::ceil<std::chrono::seconds>(options_.retention),
                                   .step_pause = kStepPause};
  const auto swept = SweepJournal(options_.journal, retention, clock_, std::move(stop));
  if (!swept) {
    LogWarning(
        "a journal could not be swept, tried again later",
        {{"journal", options_.journal.path}, {"code", swept.error().code()}, {"error", swept.error().ToString()}});
    return;
  }
  if (swept->messages == 0) return;
  LogInfo("old messages removed from a journal",
          {{"journal", options_.journal.path}, {"messages", swept->messages}, {"bytes", swept->bytes}});
}

void JournalKeeper::Run(std::stop_token stop) const {
  bool go_on = clock_.SleepFor(options_.first, stop);
  while (go_on) {
    RunOnce(stop);
    go_on = clock_.SleepFor(options_.interval, stop);
  }
}

std::map<std::string, JournalKeeperOptions> JournalsOf(const std::vector<RouteSetup>& setups) {
  std::map<std::string, JournalKeeperOptions> journals;
  std::set<std::string> for_ever;
  for (const RouteSetup& setup : setups) {
    const auto target = ParseBrokerUrl(setup.broker.Text(Key::kBrokerUrl));
    if (!target || target->kind != BrokerKind::kJournal) continue;
    const std::string path = AbsolutePath(target->location);
    const std::chrono::milliseconds retention = setup.broker.Duration(Key::kBrokerJournalRetention);
    if (retention.count() == 0) for_ever.insert(path);
    const auto [known, is_new] = journals.try_emplace(
        path, JournalKeeperOptions{.journal = JournalOptionsOf(setup.broker, *target), .retention = retention});
    if (!is_new) known->second.retention = std::max(known->second.retention, retention);
  }
  for (const std::string& path : for_ever) journals.erase(path);
  return journals;
}

void JournalKeepers::KeepFor(const std::vector<RouteSetup>& setups) {
  auto wanted = JournalsOf(setups);
  std::erase_if(running_, [&](const auto& entry) {
    const auto found = wanted.find(entry.first);
    return found == wanted.end() || found->second.retention != entry.second.keeper->options().retention;
  });
  for (auto& [path, options] : wanted) {
    if (running_.contains(path)) continue;
    Running& started = running_[path];
    started.keeper = std::make_unique<JournalKeeper>(std::move(options), clock_);
    started.thread =
        std::jthread([keeper = started.keeper.get()](std::stop_token stop) { keeper->Run(std::move(stop)); });
    ::pthread_setname_np(started.thread.native_handle(), "journal-keeper");
  }
}

}  // namespace sealane::cli
