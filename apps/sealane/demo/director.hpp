#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>

#include "sealane/clock.hpp"
#include "sealane/random.hpp"

#include "demo/board.hpp"
#include "demo/offices.hpp"
#include "demo/outage.hpp"
#include "demo/place.hpp"
#include "demo/plan.hpp"
#include "demo/relay_process.hpp"
#include "demo/shop.hpp"
#include "demo/side_writer.hpp"
#include "demo/topic_watch.hpp"
#include "demo/verdict.hpp"

namespace sealane::demo {

struct DemoOptions {
  Pace pace = {};
  Plant plant = Plant::kNone;
  PlaceOptions place = {};
  std::optional<OutageCommands> outage = {};
};

/// What a run came to.
struct Outcome {
  Verdict verdict;
  Counts counts;
  std::chrono::milliseconds first_applied{};  ///< from the start of this process
};

/// Plays the demo: sets the place up, opens the shop, breaks things by the plan, waits until everything has settled,
/// and judges.
///
/// One thread calls everything and lives longer than the director, because the relay dies with it.
class Director {
 public:
  Director(DemoOptions options, Board& board, Clock& clock, Random& random);
  /// Stops everything, in the order that loses nothing, and cleans up.
  ~Director();
  Director(const Director&) = delete;
  Director& operator=(const Director&) = delete;

  /// The place and everything in it. kCancelled when it was asked to stop.
  Status SetUp(const std::stop_token& stop);
  const Place& place() const { return *place_; }
  /// kCancelled when it was asked to stop. Relay and consumers run on afterwards.
  Result<Outcome> Play(std::stop_token stop);

 private:
  Status SetTenantRule() const;
  Status StartRelay();
  Status OpenOffices();
  bool JournalHasTopics() const;
  /// Returns when the first order has gone all the way, so that the plan meets a system at work.
  Status WarmUp(const std::stop_token& stop);
  /// Breaks and heals what is due.
  Status FollowPlan(std::chrono::milliseconds now);
  Status EndOutage();
  /// With the relay that marks first: both routes have marked more than was delivered, so that a death now shows it.
  bool MarkIsVisible();
  /// An error when a part has failed or the relay has ended by itself.
  Status CheckParts();
  /// The same, and counts.
  Status Look();
  /// What the store and the watch have to show for a settled run.
  bool Settled() const;
  /// Whether the relay has marked everything, after which no further copy comes.
  Result<bool> RoutesAreDone();
  /// Messages that consumers have not acknowledged to the broker: these they may still be about to apply.
  Result<std::int64_t> Unread() const;
  Status WaitUntilSettled(std::stop_token stop);
  Result<Evidence> Gather();

  const DemoOptions options_;
  const Plan plan_;
  Board& board_;
  Clock& clock_;
  Random& random_;
  FirstFailure failure_;
  Mischief mischief_;
  Counts counts_;
  std::optional<std::chrono::milliseconds> first_applied_;
  std::optional<BootTime> away_since_;
  bool relay_wanted_ = false;
  std::size_t next_step_ = 0;
  std::optional<std::int64_t> unread_;  // at the last look, if everything else had settled

  // In the order in which they depend on each other; the last is stopped first.
  std::unique_ptr<Place> place_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Outage> outage_;
  std::unique_ptr<SideWriter> side_;
  std::unique_ptr<RelayProcess> relay_;
  std::unique_ptr<TopicWatch> watch_;
  std::unique_ptr<Offices> offices_;
  std::unique_ptr<Shop> shop_;
};

}  // namespace sealane::demo
