#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/random.hpp"

#include "core/wire_encoder.hpp"
#include "relay/judge.hpp"
#include "relay/lease_board.hpp"
#include "relay/ledger.hpp"
#include "relay/parking.hpp"
#include "relay/route_options.hpp"
#include "relay/route_stats.hpp"
#include "relay/topic_template.hpp"
#include "relay/work.hpp"

namespace sealane {

/// The publishing loop: takes pages, submits their events in order, judges what became of them, and writes down how
/// far every lane has come.
///
/// Writes nothing per event on the happy path. Positions, events set aside and events that came back from there are
/// written together, at most every settle_interval, in one transaction that never spans a call to the destination.
/// One thread.
class Dispatcher {
 public:
  Dispatcher(const RouteOptions& options, TopicTemplate topics, LeaseBoard& board, WorkQueue& queue,
             MemoryBudget& budget, Clock& clock, Random& random);

  struct Step {
    std::size_t submitted = 0;
    std::size_t delivered = 0;
    bool settled = false;
  };
  /// Waits for deliveries at most `wait`, and not at all while there is something to submit.
  Result<Step> RunOnce(OutboxLog& log, Publisher& publisher, std::chrono::milliseconds wait);
  /// Stops what must not go on when a lease ran out. Needs no store, so that it works when that is away.
  void WatchLease(Publisher& publisher);

  /// From now on only what was begun is finished.
  void BeginDrain() { draining_ = true; }
  /// Nothing is on its way and everything known is written down.
  bool quiet() const;
  /// No page is waiting or on its way: together with a reader that has caught up this means drained.
  bool empty() const { return open_pages_ == 0 && quiet(); }
  /// Whether events wait for a topic that the destination does not have, or delayed ones may be due.
  bool waits() const { return !waiting_.empty() || delayed_due_; }
  /// At the end of a drain that took too long: takes back what has no answer. Returns how many messages may be there
  /// all the same, and will come again.
  std::size_t GiveUp(Publisher& publisher);
  /// Writes down what is known, whatever the interval.
  Result<bool> Settle(OutboxLog& log);

  /// Everything it knows; the rest of the statistics is filled in by others.
  const RouteStats& counts() const { return counts_; }
  void FillGauges(RouteStats& stats) const;
  /// Topics that are missing, as a problem beside which the route goes on; when there is no worse one.
  void ShowMissingTopics(RouteStats& stats) const;
  /// Tenants that have as many parked events as they may, in the same way.
  void ShowFullTenants(RouteStats& stats) const;

 private:
  // Tokens say what a delivery belongs to: a page's entry, the copy of one for the dead-letter topic, a retry, an
  // event that waited for its topic, or one that waited for its time.
  enum class TokenKind : std::uint8_t { kEntry, kDeadLetter, kRetry, kWaited, kDelayed };
  struct Token {
    TokenKind kind = TokenKind::kEntry;
    std::uint32_t slot = 0;
    std::uint32_t entry = 0;
    std::uint64_t Pack() const;
    static Token Unpack(std::uint64_t packed);
  };

  static constexpr std::int32_t kFirstAttempt = 1;
  /// Between two readings of all that is parked, which find what was changed without a word to relays.
  static constexpr std::chrono::seconds kReconcileInterval{60};
  static constexpr Verdict kDies{.kind = Verdict::Kind::kPark, .state = ParkedState::kDead};

  void DropLostLanes();
  void LoseLanes(std::span<const LaneLease> leases);
  Status TakeWork(OutboxLog& log);
  Status Open(OutboxLog& log, std::vector<LaneOpened>& opened);
  void AddPage(PageRead read);
  void FinishEntry(std::uint32_t slot);
  void FreeIfDone(std::uint32_t slot);

  void Enqueue(std::uint32_t slot);
  std::size_t SubmitPages(Publisher& publisher);
  std::size_t SubmitAgain(Publisher& publisher);
  enum class Outcome : std::uint8_t { kSubmitted, kFinished, kStop };
  /// `again`: it was submitted before and came back.
  Outcome Handle(std::uint32_t slot, std::uint32_t entry, bool again, Publisher& publisher);
  /// `topic`: instead of the one that the route chooses; empty: that one.
  Submitted Send(const LogEntry& entry, Token token, Publisher& publisher, std::string_view topic = {});
  Submitted SendDeadLetter(const LogEntry& entry, const Delivery& why, std::int32_t attempts, Token token,
                           Publisher& publisher);

  void OnDelivery(const Delivery& delivery, Publisher& publisher);
  void OnEntry(const Delivery& delivery, Token token, Publisher& publisher);
  void OnDeadLetter(const Delivery& delivery, Token token);
  void OnRetry(const Delivery& delivery, Token token, Publisher& publisher);
  void OnRetriedToDeath(const Delivery& delivery, std::uint32_t slot, std::optional<LaneLease> lease);
  static bool IsReadable(const EnvelopeView& event);
  bool TryAgainLater(const Delivery& copy);
  void NoteCopy(const Delivery& delivery, const LogEntry& entry) const;
  // `fresh`, here and below: it was not parked before.
  void RejectUnreadable(const LogEntry& entry, LaneLease lease, std::int32_t attempts, bool fresh = true);
  void ParkFollower(const LogEntry& entry, LaneLease lease, std::string_view topic = {});
  // `topic`: the one that was chosen for it; empty: the one that the route chooses.
  void BlockFollowers(const LogEntry& entry, LaneLease lease, const Verdict& verdict, std::string_view topic = {});
  void ParkFailed(const LogEntry& entry, LaneLease lease, const Verdict& verdict, const Delivery& why,
                  std::int32_t attempts, std::string_view topic = {}, bool fresh = true);
  ParkChange ChangeOf(const LogEntry& entry, LaneLease lease, std::string_view topic = {});
  void CountPublished(const LogEntry& entry);
  void CountFailure(const Delivery& delivery, const LogEntry& entry, std::int32_t attempts);
  void Hold();

  LaneLease LeaseOf(const OpenPage& page, const LogEntry& entry) const;
  std::string_view UnitOf(const LogEntry& entry, std::string_view topic = {});
  std::string_view KeyOf(const EnvelopeView& event, std::string_view wire_key) const;

  /// As the store knows them; an error when they are too many to be kept in mind.
  static Result<std::vector<BlockedUnit>> BlockedUnits(OutboxLog& log, const std::vector<LaneLease>& leases);
  /// Units with an event that came back, or dies: it goes before whatever was set aside of them.
  std::set<std::string> UnitsOnTheirWay();
  /// Says so in the statistics too.
  bool ParkingIsFull();
  Status RetryParked(OutboxLog& log, Publisher& publisher);
  /// What operators changed, and now and then everything.
  Status HearOperators(OutboxLog& log);
  Status BeginRetries(OutboxLog& log, Publisher& publisher);
  Status ReadDue(OutboxLog& log, const std::vector<DueUnit>& due, Publisher& publisher);
  void StartRetry(std::uint32_t slot, Publisher& publisher);
  /// The run ends, and its unit is tried again at `due`; empty: when an operator has decided.
  void EndRetry(std::uint32_t slot, std::optional<BootTime> due);
  /// When a unit is tried again whose first event ended so.
  std::optional<BootTime> DueAfter(const Verdict& verdict) const;

  // ---- tenants with too many parked events ----
  /// Its events are let through in growing numbers as long as they succeed, and one at a time after a failure.
  struct FullTenant {
    std::uint64_t probes = 0;
    std::size_t size = 1;       ///< how many the next probe is
    std::size_t passed = 0;     ///< of this probe
    std::int32_t failures = 0;  ///< in a row
    BootTime next{0};           ///< when the next probe is, whatever became of this one
  };
  void NoteParked(std::string_view tenant);
  void NotePassed(std::string_view tenant);
  void ProbeFullTenants();

  // ---- topics that are missing (dispatcher_waiting.cpp) ----
  /// What is known of a topic that events wait for.
  struct TopicOutage {
    bool missing = false;  ///< said the destination; otherwise it is not known yet, or back
    bool proven = false;   ///< it took an event since
    bool runs = false;     ///< some of its events are on their way
    BootTime look{0};      ///< when it is tried next
    std::int64_t events = 0;
    std::string problem = {};
  };
  /// Events that waited, on their way out.
  struct WaitedRun {
    std::string topic;
    Page page;
    std::vector<LaneLease> leases;
    std::size_t next = 0;  ///< the first that was not submitted
    std::size_t open = 0;  ///< submitted, without an answer
    bool stopped = false;  ///< the rest stays where it is
  };
  /// Whether events for this topic have to wait, behind others or for the topic itself.
  bool MustWait(std::string_view topic) const { return !waiting_.empty() && waiting_.find(topic) != waiting_.end(); }
  /// Whether the destination said that it does not have this topic.
  bool IsMissing(std::string_view topic) const {
    const auto found = waiting_.find(topic);
    return found != waiting_.end() && found->second.missing;
  }
  void BeginOutage(std::string_view topic, const Delivery& delivery);
  /// `was_parked_in`: the unit in which it was parked so far; empty: it was not.
  void WaitForTopic(const LogEntry& entry, LaneLease lease, std::string_view topic, std::int32_t attempts,
                    std::string_view was_parked_in = {});
  Status LoadWaiting(OutboxLog& log, const std::vector<LaneLease>& leases);
  Status CountWaiting(OutboxLog& log, const std::vector<LaneLease>& leases);
  /// Of tenants whose events must not leave now.
  std::vector<std::string> PausedTenants() const;
  Status DrainWaiting(OutboxLog& log, Publisher& publisher);
  std::size_t SubmitWaited(Publisher& publisher);
  bool SubmitWaited(std::uint32_t slot, Publisher& publisher, std::size_t& submitted);
  void OnWaited(const Delivery& delivery, Token token);
  void EndIfDone(std::uint32_t slot);
  std::optional<LaneLease> LeaseIn(const std::vector<LaneLease>& leases, Lane lane) const;

  // ---- events whose time had not come (dispatcher_delayed.cpp) ----
  /// Delayed events on their way out.
  struct DelayedRun {
    Page page;
    std::vector<LaneLease> leases;
    std::size_t next = 0;                    ///< the first that was not submitted
    std::size_t open = 0;                    ///< submitted, without an answer
    std::optional<DelayedPlace> again = {};  ///< the first that came back: the rest is read again from there
  };
  /// Keeps an event until its time; `due` is that by the clock that never steps.
  void Delay(const LogEntry& entry, LaneLease lease, std::chrono::microseconds due);
  Status DrainDelayed(OutboxLog& log, Publisher& publisher);
  std::size_t SubmitDelayed(Publisher& publisher);
  void OnDelayed(const Delivery& delivery, Token token);
  void EndDelayedIfDone();
  /// Reads delayed events again from the first on: lanes or tenants changed.
  void RestartDelayed();

  bool SettleIsDue() const;
  Status ReleaseQuietLanes(OutboxLog& log);

  const RouteOptions& options_;
  LeaseBoard& board_;
  WorkQueue& queue_;
  MemoryBudget& budget_;
  Clock& clock_;
  Random& random_;
  TopicTemplate topics_;
  WireEncoder encoder_;

  Ledger ledger_;
  Parking parking_;
  std::uint64_t seen_generation_ = 0;

  std::vector<std::unique_ptr<OpenPage>> pages_;  // by slot; null: free
  std::vector<std::uint32_t> free_slots_;
  std::size_t open_pages_ = 0;
  std::deque<std::uint32_t> to_submit_;  // slots, in the order they were read, those of the main flow first
  std::optional<BootTime> others_at_;    // when the main flow had events
  std::vector<std::uint64_t> resend_;    // tokens that came back; submitted before anything else
  bool resend_may_repeat_ = false;       // some of them may have been persisted
  struct Failed {  // an event that goes to the dead-letter topic before it is written down as dead
    Delivery why;
    std::int32_t attempts = 0;
  };
  std::unordered_map<std::uint64_t, Failed> dead_lettering_;  // by the entry's token
  std::size_t inflight_ = 0;
  bool blocked_by_parked_ = false;
  bool draining_ = false;

  std::int32_t holds_ = 0;  // in a row
  BootTime hold_until_{0};
  BootTime settled_at_{0};
  BootTime parked_look_{0};   // at what waits for a topic
  BootTime next_batch_{0};    // of retries
  BootTime reconcile_at_{0};  // when all that is parked is read again
  std::map<std::string, FullTenant, std::less<>> full_;
  bool full_changed_ = false;
  std::map<std::string, TopicOutage, std::less<>> waiting_;  // by topic at the destination
  std::vector<std::unique_ptr<WaitedRun>> waited_;           // by slot; null: free
  std::size_t waited_runs_ = 0;
  BootTime waiting_look_{0};
  std::optional<DelayedRun> delayed_;
  std::optional<DelayedPlace> delayed_behind_;  // due, but the position has not passed it
  DelayedPlace delayed_from_;                   // what stands up to here was read
  BootTime delayed_look_{BootTime::max()};      // when the next of them is due
  bool delayed_due_ = false;                    // some may be due
  std::vector<std::string> delayed_but_;        // tenants that are left out
  std::uint64_t delayed_rules_ = ~std::uint64_t{0};
  Timestamp now_{};
  RouteStats counts_;
  std::string last_topic_;
  std::uint64_t* last_topic_count_ = nullptr;
  std::vector<Delivery> deliveries_;
  std::string unit_;
  std::string own_unit_;
};

}  // namespace sealane
