#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "sealane/clock.hpp"

#include "daemon/route_setup.hpp"
#include "journal/journal_retention.hpp"

namespace sealane::cli {

struct JournalKeeperOptions {
  JournalOptions journal;
  std::chrono::milliseconds retention;  ///< messages older than this go
  std::chrono::milliseconds first = std::chrono::minutes{1};
  std::chrono::milliseconds interval = std::chrono::minutes{10};
};

/// Keeps one journal from growing without bound: removes what is too old, now and then. Nothing that fails here stops
/// a relay; it is logged and tried again.
class JournalKeeper {
 public:
  JournalKeeper(JournalKeeperOptions options, Clock& clock) : options_(std::move(options)), clock_(clock) {}

  const JournalKeeperOptions& options() const { return options_; }
  void RunOnce(std::stop_token stop = {}) const;
  void Run(std::stop_token stop) const;

 private:
  const JournalKeeperOptions options_;
  Clock& clock_;
};

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
