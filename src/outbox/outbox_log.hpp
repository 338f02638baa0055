#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/result.hpp"

#include "core/envelope_view.hpp"

namespace sealane {

using Lane = std::int32_t;

/// How far a flow of a lane is done. Made and read by the store alone; everybody else keeps it, compares it and hands
/// it back. It belongs to the server or file it was made on: after a change of that, the log refuses it (kFenced
/// `server_changed`), lanes are lost, and their positions come anew from the store.
///
/// Done is what the store had committed at `cursor`; and, of what it had committed at `window` (unless that is
/// empty), what has a sequence number up to `seq`.
struct Position {
  std::string cursor;
  std::string window = {};
  std::int64_t seq = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

/// The right to run a lane: `epoch` grows with every take-over and is part of every write.
struct LaneLease {
  Lane lane = 0;
  std::int64_t epoch = 0;
  friend bool operator==(const LaneLease&, const LaneLease&) = default;
};

/// Tenants that run on a position of their own, because they have a long backlog, a rate limit or a pause.
struct ApartFlow {
  std::vector<std::string> tenants;
  Position position;
  friend bool operator==(const ApartFlow&, const ApartFlow&) = default;
};

/// Where a lane stands: `main` for every tenant that is not in one of `apart`.
struct LanePositions {
  Position main;
  std::vector<ApartFlow> apart = {};
  friend bool operator==(const LanePositions&, const LanePositions&) = default;
};

struct LaneGrant {
  LaneLease lease;
  LanePositions positions;
};

/// What an operator has decided about a tenant on this route.
struct TenantRule {
  std::string tenant;
  bool paused = false;
  std::int64_t rate_max = 0;  ///< events per second over all relays; 0: without limit
  std::int32_t weight = 1;    ///< share of a crowded relay
  friend bool operator==(const TenantRule&, const TenantRule&) = default;
};

/// The answer to a heartbeat.
struct Membership {
  std::int32_t lanes = 0;        ///< how many the outbox has
  std::int32_t live_relays = 1;  ///< of this route, this one included
  std::vector<LaneLease> held;   ///< still ours, now for another ttl; a lane that is missing is lost
  bool changes = false;          ///< operators changed parked events of this route: see TakeChanges()
  bool paused = false;           ///< an operator has paused the whole route
  std::vector<TenantRule> tenants;

  /// More order keys than this are not held back by one relay.
  static constexpr std::int64_t kBlockedUnitsMax = 1'000'000;
};

/// The newest moment up to which the log may be read. What is read up to it survives a crash of the store: nothing
/// that was published can be undone by one.
struct Horizon {
  std::string cursor;         ///< as Position::cursor
  std::int64_t seq_high = 0;  ///< the highest number handed out by then
  Timestamp at{};             ///< by the store's clock
  /// For Read(): what has to be on disk before it hands anything out; empty: it is.
  std::string durable_from = {};
};

/// One event of the log. The texts lie in its page.
struct LogEntry {
  std::int64_t seq = 0;
  std::uint64_t place = 0;  ///< where the store finds the row again
  Lane lane = 0;
  Timestamp appended_at{};
  EnvelopeView event;
};

/// A stretch of the log in memory. Entries are in the order of their seq.
class Page {
 public:
  /// Whatever keeps the bytes that the entries point to.
  struct Storage {
    virtual ~Storage() = default;
  };

  std::vector<LogEntry> entries;
  std::unique_ptr<Storage> storage;
  std::size_t bytes = 0;   ///< of memory, entries included
  Position next;           ///< where the flow stands when every entry here is done
  bool caught_up = false;  ///< `next` is the horizon: there is nothing more to read up to it
};

struct ReadRequest {
  std::span<const Lane> lanes;                ///< all at the same position
  std::span<const std::string> tenants = {};  ///< these alone, or all but these
  bool all_but = true;
  const Position* from = nullptr;
  const Horizon* horizon = nullptr;
  std::size_t entries_max = 5'000;    ///< a hint: a page may be somewhat larger
  std::size_t bytes_max = 4'194'304;  ///< a limit, exceeded only by a page with a single entry
};

/// Life of an event that was set aside.
enum class ParkedState : std::uint8_t {
  kWaiting,    ///< an earlier event of its unit is parked
  kFailed,     ///< will be retried
  kDead,       ///< waits for a person
  kDiscarded,  ///< given up by a person; kept as a record
};
/// `WAITING`, `FAILED`, `DEAD`, `DISCARDED`.
std::string_view ToString(ParkedState state);
std::optional<ParkedState> ParseParkedState(std::string_view text);

/// Sets an event aside, or changes one that is. `unit` is what keeps order with it: its key, its tenant, ... by the
/// route's order mode.
struct ParkChange {
  LaneLease lease;
  std::int64_t seq = 0;
  std::uint64_t place = 0;
  EventId id;
  std::string unit;
  std::string tenant;
  std::string topic;
  std::string key;
  Timestamp appended_at{};
  std::int64_t payload_bytes = 0;
  ParkedState state = ParkedState::kWaiting;
  std::int32_t attempts = 0;
  std::optional<std::chrono::milliseconds> retry_after = {};  ///< from now, by the store's clock
  std::string error_code = {};                                ///< with a message: a failure now
  std::string error_message = {};
  bool holds_followers = true;  ///< false: dead, and the events behind it go on
  /// With kWaiting, not empty: the destination has no topic of this name, and the event waits for it. It has not
  /// failed, holds back nothing, and is not counted by Membership::parked.
  std::string waits_for = {};
};

/// An event that was set aside was published: its record goes.
struct Unpark {
  LaneLease lease;
  std::int64_t seq = 0;
  /// Not empty: only while it waits for this topic. An operator may have chosen another in the meantime.
  std::string waits_for = {};
};

/// An event whose `available_at` has not come yet: the position moves past it, and it is kept by its time. It has not
/// failed, holds back nothing, and there may be any number of them.
struct DelayChange {
  LaneLease lease;
  std::int64_t seq = 0;
  std::uint64_t place = 0;
  EventId id;
  std::string tenant;
  Timestamp appended_at{};
  Timestamp due_at{};
  std::int64_t payload_bytes = 0;
};

/// A delayed event was published or parked: it is not kept by its time any more.
struct Undelay {
  LaneLease lease;
  std::int64_t seq = 0;
};

/// A place among the delayed events, which are ordered by their time, then by seq.
struct DelayedPlace {
  Timestamp due_at{};
  std::int64_t seq = 0;
  friend auto operator<=>(const DelayedPlace&, const DelayedPlace&) = default;
};

struct DelayedRequest {
  std::span<const LaneLease> leases;
  std::span<const std::string> but_tenants = {};
  DelayedPlace from = {};             ///< what stands up to here was read before, or is not asked for
  std::size_t rows_max = 1'000;       ///< looked at, whoever's they are
  std::size_t bytes_max = 1'048'576;  ///< exceeded only by a page with a single entry
};

/// Delayed events whose time has come.
struct DelayedPage {
  Page page;                  ///< entries in the order of their places
  DelayedPlace next;          ///< where to read on
  bool caught_up = false;     ///< nothing after `next` is due yet
  std::vector<Undelay> gone;  ///< whose row is gone from the log
  /// The first that is due and left out, because the position of its lane has not passed it yet: an earlier event of
  /// its key may still be on its way.
  std::optional<DelayedPlace> behind = {};
  /// When `caught_up`: until the first event after `next` is due; empty: there is none.
  std::optional<std::chrono::milliseconds> next_due_in = {};
};

/// Puts the entries of a page of delayed events into the order of their places.
void SortByTime(Page& page);

/// Everything a relay writes about its progress, in one transaction. Each part counts only when the store still knows
/// the relay as the owner of that lane with that epoch.
struct SettleRequest {
  struct Progress {
    LaneLease lease;
    LanePositions positions;
    /// The window that is being published now, for the status view; empty: none.
    std::string window = {};
  };
  std::vector<Progress> progress;
  std::vector<ParkChange> park;
  std::vector<Unpark> unpark;
  std::vector<DelayChange> delay = {};
  std::vector<Undelay> undelay = {};

  bool empty() const {
    return progress.empty() && park.empty() && unpark.empty() && delay.empty() && undelay.empty();
  }
};

struct SettleReport {
  std::vector<Lane>
      fenced;  ///< lanes of the request that belong to somebody else by now: nothing of theirs was written
};

/// A unit that is held back. Its events can lie in several lanes when the route's order spans lanes; then one relay
/// has all of them.
struct DueUnit {
  LaneLease lease;  ///< of its first event
  std::string unit;
};

/// What holds back a unit: the first of its parked events.
struct BlockedUnit {
  LaneLease lease;
  std::string unit;
  std::string tenant;
  std::int64_t seq = 0;
  bool dead = false;                    ///< it waits for a person
  std::chrono::milliseconds due_in{0};  ///< otherwise: until it may be tried, by the store's clock
  std::int64_t events = 1;              ///< parked in the unit, those that hold back nothing left out
};

/// A parked event that is tried again.
struct ParkedEntry {
  std::size_t entry = 0;  ///< index in the page that came with it
  ParkedState state = ParkedState::kWaiting;
  std::int32_t attempts = 0;
  std::string destination = {};  ///< the topic that an operator chose for it; empty: the route's own choice
};

/// The events of a unit that come next, in order: up to the first that is dead, or whose time has not come.
struct ParkedUnit {
  std::vector<ParkedEntry> entries = {};
  enum class Rest : std::uint8_t {
    kNothing,  ///< nothing of the unit is parked behind them
    kMore,     ///< more than were asked for, or than fit
    kDead,     ///< one that waits for a person
    kLater,    ///< one whose time comes in `due_in`, or which the position has not passed yet
    kGone,     ///< one whose row is gone from the log; it waits for a person
  };
  Rest rest = Rest::kNothing;
  std::chrono::milliseconds due_in{0};
  EventId gone = {};
};

/// Until something is asked for again that the position of its lane has not passed.
inline constexpr std::chrono::milliseconds kBehindPosition{200};

struct ParkedBatch {
  Page page;  ///< of all of them
  std::vector<ParkedUnit>
      units;  ///< of the request, in its order; the last ones may be missing when the page is full
};

/// A topic that the destination did not have when events for it came.
struct WaitingTopic {
  std::string topic;
  std::int64_t events = 0;  ///< that wait for it, counted up to kCountMax

  static constexpr std::int64_t kCountMax = 10'000;
};

struct TendReport {
  std::int32_t partitions_made = 0;
  std::int64_t forgotten = 0;  ///< old settlements, fingerprints, responses, topics that operators chose
};

/// The error of OutboxLog::KeepOrder().
Error OrderChanged(std::string_view route, std::string_view recorded, std::string_view wanted, std::int64_t parked,
                   std::int64_t relays);

/// Port: the outbox as one relay sees it on one route: leases, the log, progress, and what was set aside.
///
/// One connection, not thread-safe: a relay opens one for each of its loops. `owner` names the relay and is the same
/// for all of them. Errors of kind kUnavailable mean: the connection is gone, open a new log.
class OutboxLog {
 public:
  virtual ~OutboxLog() = default;

  // ---- leases ----

  // A relay has one lease for all its lanes.

  /// Says that this relay lives, and extends its lease to now + ttl. The lanes of a lease that ran out are lost, also
  /// when nobody has taken them yet.
  virtual Result<Membership> Beat(std::chrono::milliseconds ttl) = 0;
  /// Takes up to `max` lanes that are free or whose lease ran out, each with the next epoch. When there are any, this
  /// relay lives, and its lease ends at now + ttl or later. Never waits for another relay that does the same.
  virtual Result<std::vector<LaneGrant>> Claim(std::int32_t max, std::chrono::milliseconds ttl) = 0;
  /// Gives lanes back, so that others can take them at once.
  virtual Status Release(std::span<const LaneLease> leases) = 0;
  /// Releases everything and is no longer counted as alive.
  virtual Status Leave() = 0;

  // ---- the log ----

  virtual Result<Horizon> Look() = 0;
  /// Committed events after `from`, up to the horizon at most, in a page of bounded size. A page may be empty and
  /// still move the position.
  virtual Result<Page> Read(const ReadRequest& request) = 0;
  /// Whether lanes of this route other than `mine`, whichever relay has them, are done up to the horizon: published,
  /// parked, or empty.
  virtual Result<bool> OthersDone(std::span<const LaneLease> mine, const Horizon& horizon) = 0;

  // ---- progress ----

  virtual Result<SettleReport> Settle(const SettleRequest& request) = 0;

  // ---- what was set aside ----
  //
  // What is parked, waits for a topic or for its time is read only once the stored position of its lane has passed
  // it. Before that an earlier event of its key may not be published yet: by this relay, or by one before it that
  // died.

  /// Units of these lanes with something that holds back their followers (everything but DISCARDED and skipped). When
  /// there are more than Membership::kBlockedUnitsMax, one more than that many. Reads all that is parked: for lanes
  /// that were just taken, and now and then to be sure.
  virtual Result<std::vector<BlockedUnit>> BlockedUnits(std::span<const LaneLease> leases) = 0;
  /// The same of these units alone; one that holds back nothing is left out.
  virtual Result<std::vector<BlockedUnit>> BlockedUnits(std::span<const DueUnit> units) = 0;
  /// Units of these lanes in which an operator has changed something, at most `limit`. The store forgets them with
  /// this call: whoever does not get its answer has to read BlockedUnits() anew.
  virtual Result<std::vector<DueUnit>> TakeChanges(std::span<const LaneLease> leases, std::size_t limit) = 0;
  /// What comes next in each of these units, at most `limit` events of each and `bytes_max` in all (exceeded only by
  /// a page with a single entry).
  virtual Result<ParkedBatch> ReadParked(std::span<const DueUnit> units, std::size_t limit,
                                         std::size_t bytes_max) = 0;

  // ---- what waits for a topic ----

  /// The topics that events of these lanes wait for, at most `limit`, in the order of their names.
  virtual Result<std::vector<WaitingTopic>> WaitingTopics(std::span<const LaneLease> leases, std::size_t limit) = 0;
  /// The first events of these lanes that wait for the topic and are of none of these tenants, in the order of their
  /// seq, at most `limit` and `bytes_max` (exceeded only by a page with a single entry). Page::caught_up: there are
  /// no more. An event whose row is gone from the log is left out.
  virtual Result<Page> ReadWaiting(const std::string& topic, std::span<const LaneLease> leases,
                                   std::span<const std::string> but_tenants, std::size_t limit,
                                   std::size_t bytes_max) = 0;

  // ---- what waits for its time ----

  /// The next delayed events of these lanes whose time has come by the store's clock and which are of none of these
  /// tenants. Costs as much as it looks at, however many wait for a later time.
  virtual Result<DelayedPage> ReadDelayed(const DelayedRequest& request) = 0;

  // ---- what the route was set up with ----

  /// Records the order mode that the route is run with (`key`, `tenant`, `global`, `none`). kMisconfigured
  /// (`order_changed`) when another one is recorded and parked events, or other live relays, still go by that.
  /// kMisconfigured (`lanes_changed`) when the number of lanes is not the one of the installation.
  virtual Status KeepOrder(std::string_view order) = 0;

  // ---- housekeeping ----

  /// What keeps the store in shape; cheap, to be called every few minutes.
  virtual Result<TendReport> Tend() = 0;
};

}  // namespace sealane
