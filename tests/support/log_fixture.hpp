#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "ops/dead_letters.hpp"
#include "ops/route_desk.hpp"
#include "outbox/outbox_log.hpp"
#include "outbox/outbox_store.hpp"

namespace sealane::testing {

/// One migrated, empty store of some kind, for the suites that say what every outbox promises to relays and
/// operators.
class LogFixture {
 public:
  virtual ~LogFixture() = default;

  virtual std::unique_ptr<OutboxStore> OpenStore() = 0;
  virtual std::unique_ptr<OutboxLog> OpenLog(const std::string& owner, const std::string& route = "main") = 0;
  virtual std::unique_ptr<DeadLetters> OpenDeadLetters() = 0;
  virtual std::unique_ptr<RouteDesk> OpenRouteDesk() = 0;

  /// An event that some relay of a route set aside, with its key as the unit.
  struct Parked {
    EventId id;
    ParkedState state = ParkedState::kDead;
    std::int32_t attempts = 0;
    std::string error_code = {};  ///< empty: it did not fail itself
  };
  /// Sets committed events aside, in this order.
  virtual void Park(const std::vector<Parked>& events, const std::string& route = "main");

  /// Makes leases, members, times of parked events and settlements that much older.
  virtual void LetTimePass(std::chrono::seconds duration) = 0;
  /// Removes an event from the log, as retention does.
  virtual void Erase(const EventId& id) = 0;
  /// Whether a second transaction has to wait for the first to end.
  virtual bool has_one_writer() const { return false; }
};

/// `memory`, `sqlite` or `postgres`.
std::unique_ptr<LogFixture> MakeLogFixture(const std::string& kind);

/// The stores that have an OutboxLog.
std::vector<std::string> LogStores();

/// A lease that outlasts every test.
inline constexpr std::chrono::minutes kLongLease{10};

/// Takes every lane that is free.
std::vector<LaneGrant> TakeAll(OutboxLog& log, std::chrono::milliseconds ttl = kLongLease);
std::vector<Lane> LanesOf(const std::vector<LaneGrant>& grants);
std::vector<LaneLease> LeasesOf(const std::vector<LaneGrant>& grants);
/// The lease of the lane that the event is in.
LaneLease LeaseFor(const std::vector<LaneGrant>& grants, const LogEntry& entry);

/// An event of the log that outlives its page.
struct ReadEvent {
  LogEntry entry;  ///< its texts are gone
  Envelope envelope;
};

/// What to read, from where; empty tenants: all of them.
struct ReadPlan {
  std::vector<Lane> lanes;
  Position from;
  std::vector<std::string> tenants = {};
  bool all_but = true;
  std::size_t entries_max = 1'000;
  std::size_t bytes_max = 4'194'304;
};
struct ReadOut {
  std::vector<ReadEvent> events;
  Position at;    ///< where the flow stands after all of them
  int pages = 0;  ///< with entries
  Horizon horizon;
};
/// Reads page by page up to the horizon of this moment. Fails the test when that does not end, when a page is not
/// ordered, or when it is larger than it may be.
ReadOut ReadToEnd(OutboxLog& log, const ReadPlan& plan);

/// Settles that all lanes stand at `position`.
SettleReport SettleAt(OutboxLog& log, const std::vector<LaneGrant>& grants, const Position& position,
                      std::vector<ApartFlow> apart = {}, const std::string& window = "");

/// The change that sets `event` aside, with its key as the unit.
ParkChange ParkOf(const std::vector<LaneGrant>& grants, const ReadEvent& event, ParkedState state);
/// The same for an event that failed.
ParkChange FailureOf(const std::vector<LaneGrant>& grants, const ReadEvent& event, ParkedState state,
                     std::int32_t attempts, const std::string& error_code);

}  // namespace sealane::testing
