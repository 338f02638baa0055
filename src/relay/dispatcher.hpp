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
  /// Whether events wait for a topic that the destination does not have.
  bool waits() const { return !waiting_.empty(); }
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

 private:
  // Tokens say what a delivery belongs to: a page's entry, the copy of one for the dead-letter topic, a retry, or an
  // event that waited for its topic.
  enum class TokenKind : std::uint8_t { kEntry, kDeadLetter, kRetry, kWaited };
  struct Token {
    TokenKind kind = TokenKind::kEntry;
    std::uint32_t slot = 0;
    std::uint32_t entry = 0;
    std::uint64_t Pack() const;
    static Token Unpack(std::uint64_t packed);
  };

  static constexpr std::int32_t kFirstAttempt = 1;
  static constexpr Verdict kDies{.kind = Verdict::Kind::kPark, .state = ParkedState::kDead};

  void DropLostLanes();
  void LoseLane(LaneLease lease);
  Status TakeWork(OutboxLog& log);
  Status Open(OutboxLog& log, std::vector<LaneOpened>& opened);
  void AddPage(PageRead read);
  void FinishEntry(std::uint32_t slot);
  void FreeIfDone(std::uint32_t slot);

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
  void RejectUnreadable(const LogEntry& entry, LaneLease lease, std::int32_t attempts);
  // `topic`: the one that was chosen for it; empty: the one that the route chooses.
  void BlockFollowers(const LogEntry& entry, LaneLease lease, const Verdict& verdict, std::string_view topic = {});
  void ParkFailed(const LogEntry& entry, LaneLease lease, const Verdict& verdict, const Delivery& why,
                  std::int32_t attempts, std::string_view topic = {});
  ParkChange ChangeOf(const LogEntry& entry, LaneLease lease, std::string_view topic = {});
  void CountPublished(const LogEntry& entry);
  void CountFailure(const Delivery& delivery, const LogEntry& entry, std::int32_t attempts);
  void Hold();

  LaneLease LeaseOf(const OpenPage& page, const LogEntry& entry) const;
  std::string_view UnitOf(const LogEntry& entry, std::string_view topic = {});
  std::string_view KeyOf(const EnvelopeView& event, std::string_view wire_key) const;

  /// As the store knows them; an error when they are too many to be kept in mind.
  Result<std::vector<DueUnit>> BlockedUnits(OutboxLog& log, const std::vector<LaneLease>& leases) const;
  /// Units with an event that came back, or dies: it goes before whatever was set aside of them.
  std::set<std::string> UnitsOnTheirWay();
  /// Says so in the statistics too.
  bool ParkingIsFull();
  Status RetryParked(OutboxLog& log, Publisher& publisher);
  Status BeginRetries(OutboxLog& log, const std::vector<LaneLease>& leases, const std::set<std::string>& on_their_way,
                      Publisher& publisher);
  void EndRetry(std::uint32_t slot);
  void StartRetry(std::uint32_t slot, Publisher& publisher);

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
  void BeginOutage(std::string_view topic, const Delivery& delivery);
  void WaitForTopic(const LogEntry& entry, LaneLease lease, std::string_view topic, std::int32_t attempts);
  Status LoadWaiting(OutboxLog& log, const std::vector<LaneLease>& leases);
  Status CountWaiting(OutboxLog& log, const std::vector<LaneLease>& leases);
  /// Of tenants whose events must not leave now.
  std::vector<std::string> PausedTenants() const;
  Status DrainWaiting(OutboxLog& log, Publisher& publisher);
  std::size_t SubmitWaited(Publisher& publisher);
  bool SubmitWaited(std::uint32_t slot, Publisher& publisher, std::size_t& submitted);
  void OnWaited(const Delivery& delivery, Token token);
  void EndIfDone(std::uint32_t slot);
  std::optional<LaneLease> LeaseIn(const WaitedRun& run, Lane lane) const;

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
  std::deque<std::uint32_t> to_submit_;  // slots, in the order they were read
  std::vector<std::uint64_t> resend_;    // tokens that came back; submitted before anything else
  bool resend_may_repeat_ = false;       // some of them may have been persisted
  struct Failed {  // an event that goes to the dead-letter topic before it is written down as dead
    Delivery why;
    std::int32_t attempts = 0;
  };
  std::unordered_map<std::uint64_t, Failed> dead_lettering_;  // by the entry's token
  std::set<std::string> lost_units_;  // whose first event is gone from the log, as of the last look
  std::size_t inflight_ = 0;
  bool blocked_by_parked_ = false;
  bool draining_ = false;

  std::int32_t holds_ = 0;  // in a row
  BootTime hold_until_{0};
  BootTime settled_at_{0};
  BootTime parked_look_{0};
  std::map<std::string, TopicOutage, std::less<>> waiting_;  // by topic at the destination
  std::vector<std::unique_ptr<WaitedRun>> waited_;           // by slot; null: free
  std::size_t waited_runs_ = 0;
  BootTime waiting_look_{0};
  Timestamp now_{};
  RouteStats counts_;
  std::string last_topic_;
  std::uint64_t* last_topic_count_ = nullptr;
  std::vector<Delivery> deliveries_;
  std::string unit_;
  std::string own_unit_;
};

}  // namespace sealane
