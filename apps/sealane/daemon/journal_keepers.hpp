#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sealane/clock.hpp"

#include "connect/journal_keeper.hpp"
#include "daemon/route_setup.hpp"

namespace sealane::cli {

/// The keepers of all journals that some routes publish to, one for each file. Belongs to the main thread.
class JournalKeepers {
 public:
  explicit JournalKeepers(Clock& clock) : clock_(clock) {}

  /// From now on those of these routes. A file that several brokers name is kept for the longest of their times.
  void KeepFor(const std::vector<RouteSetup>& setups);
  std::size_t count() const { return running_.size(); }

 private:
  struct Running {
    std::unique_ptr<JournalKeeper> keeper;
    std::jthread thread;  // last: it uses the keeper
  };

  Clock& clock_;
  std::map<std::string, Running> running_;  // by absolute path
};

/// What is to be kept for these routes, by absolute path: a journal whose messages stay for ever is not among them.
std::map<std::string, JournalKeeperOptions> JournalsOf(const std::vector<RouteSetup>& setups);

}  // namespace sealane::cli
