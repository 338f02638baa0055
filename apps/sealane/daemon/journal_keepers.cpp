#include "daemon/journal_keepers.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include <pthread.h>

#include "broker_factory.hpp"

namespace sealane::cli {
namespace {

std::string AbsolutePath(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
  return failed ? path : absolute.lexically_normal().string();
}

}  // namespace

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
