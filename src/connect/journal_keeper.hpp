#pragma once

#include <chrono>
#include <stop_token>
#include <utility>

#include "sealane/clock.hpp"

#include "journal/journal_retention.hpp"

namespace sealane {

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
  /// The clock must outlive it.
  JournalKeeper(JournalKeeperOptions options, Clock& clock) : options_(std::move(options)), clock_(clock) {}

  const JournalKeeperOptions& options() const { return options_; }
  void RunOnce(std::stop_token stop = {}) const;
  void Run(std::stop_token stop) const;

 private:
  const JournalKeeperOptions options_;
  Clock& clock_;
};

}  // namespace sealane
