#include "inbox/consumer.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/crash_point.hpp"
#include "base/log.hpp"
#include "core/lane.hpp"
#include "inbox/partition_start.hpp"
#include "inbox/position_saver.hpp"
#include "inbox/worker.hpp"

namespace sealane {
namespace {

constexpr std::chrono::milliseconds kReopenMin{200};
constexpr std::chrono::milliseconds kReopenMax{10'000};
/// A subscription that went well for so long has left its trouble behind.
constexpr std::chrono::milliseconds kSettled{10'000};
constexpr std::chrono::seconds kLogAgainMin{2};
constexpr std::chrono::minutes kLogAgainMax{5};
/// Between counts of what is parked: while that changes, and while it does not.
constexpr std::chrono::milliseconds kCountInterval{2'000};
constexpr std::chrono::milliseconds kCountIdle{10'000};
/// Counting takes at most one part in so many of the time.
constexpr int kCountShare = 200;
/// Between looks at the store while nothing is due. An operator's decision is heard within this time.
constexpr std::chrono::milliseconds kLookIdle{1'250};
constexpr std::chrono::minutes kFencedOnce{1};
constexpr std::chrono::seconds kIdleTold{3};
constexpr std::size_t kRetryUnits = 256;
/// Looking for what is due takes at most one part in so many of the time.
constexpr int kLookShare = 10;
constexpr std::size_t kPruneRows = 5'000;
constexpr std::chrono::milliseconds kAttachAgain{250};
constexpr std::uint64_t kPollsUntilRestarted = 2;
/// Between looks whether an operator has decided about a stopped partition.
constexpr std::chrono::seconds kLookAtStopped{5};

}  // namespace

class Consumer::Impl {
 public:
  Impl(ConsumerOptions options, Handling handling, ReadEnvelope read, OpenInboxStore open_store,
       OpenSubscription open_subscription, Clock& clock, Random& random)
      : options_(std::move(options)),
        handling_(std::move(handling)),
        read_(std::move(read)),
        open_subscription_(std::move(open_subscription)),
        clock_(clock),
        permits_(options_, clock),
        gate_(options_, handling_, open_store, counters_, clock, random),
        saver_(options_, handling_, open_store, counters_, in_flight_, clock, random),
        keeper_(options_, handling_, open_store, counters_, clock, random, &permits_) {
    for (std::size_t i = 0; i < options_.workers; ++i) {
      workers_.push_back(std::make_unique<Worker>(options_, handling_, read_, open_store, counters_, in_flight_,
                                                  permits_, clock, random));
    }
    counters_.Update([this](ConsumerStats& stats) {
      stats.consumer = options_.consumer;
      stats.mode = ToString(options_.mode);
    });
  }

  Result<ConsumerReport> RunOnce() {
    ConsumerReport report;
    HearFirst();
    SEALANE_RETURN_IF_ERROR(PollOnce(std::chrono::milliseconds{0}, report));
    bool worked = true;
    while (worked) {
      worked = false;
      for (auto& worker : workers_) {
        switch (worker->Step()) {
          case Worker::StepResult::kWorked:
            ++report.batches;
            worked = true;
            break;
          case Worker::StepResult::kWaits:
            report.waits = true;
            break;
          case Worker::StepResult::kNothing:
            break;
        }
      }
    }
    report.retried += KeepOnce({});
    saver_.RunOnce();
    CommitDone(false);
    report.waits = report.waits || AnySuperseded();
    return report;
  }

  Status Run(std::stop_token stop, bool until_caught_up) {
    nothing_due_after_ = kNeverLooked;
    look_idle_ = until_caught_up ? options_.retry_interval : std::max(options_.retry_interval, kLookIdle);
    HearFirst();
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      threads.emplace_back([this, i](std::stop_token own) {
        NameThread("work-" + std::to_string(i));
        workers_[i]->Run(own);
      });
    }
    // What is parked can wait for the next process; a stop should not have to wait for it.
    std::stop_source keeper;
    const std::stop_callback end_keeper(stop, [&keeper] { keeper.request_stop(); });
    threads.emplace_back([this, token = keeper.get_token()] {
      NameThread("keeper");
      while (!token.stop_requested()) {
        if (KeepOnce(token) == 0) clock_.SleepFor(options_.retry_interval, token);
      }
    });
    threads.emplace_back([this](std::stop_token own) {
      NameThread("positions");
      while (!own.stop_requested()) {
        saver_.RunOnce();
        clock_.SleepFor(options_.commit_interval, own);
      }
    });
    Status end = Ok();
    while (!stop.stop_requested()) {
      ConsumerReport report;
      if (auto polled = PollOnce(options_.poll_wait, report); !polled) {
        end = std::move(polled);
        break;
      }
      if (!subscription_ || !unattached_.empty()) clock_.SleepFor(std::chrono::milliseconds{20}, stop);
      if (!until_caught_up) continue;
      if (auto held = permits_.lasting_problem()) {
        end = *std::move(held);
        break;
      }
      if (CaughtUp()) {
        if (!stopped_.empty()) end = StoppedError();
        if (auto held = permits_.problem(); held && end) end = *std::move(held);
        break;
      }
    }
    counters_.Update([](ConsumerStats& stats) { stats.state = ConsumerState::kDraining; });
    keeper.request_stop();
    auto closed = Close();
    for (std::jthread& thread : threads) thread.request_stop();
    threads.clear();
    counters_.Update([](ConsumerStats& stats) { stats.state = ConsumerState::kStopped; });
    if (!end) return end;
    return closed;
  }

  Status Close() {
    std::vector<Partition> all;
    for (const auto& [partition, run] : runs_) all.push_back(partition);
    HandOver(all);
    if (!subscription_) return Ok();
    auto closed = subscription_->Close();
    subscription_.reset();
    return closed;
  }

  ConsumerStats stats() const { return counters_.Copy(); }

 private:
  static void NameThread(const std::string& name) { pthread_setname_np(pthread_self(), name.c_str()); }

  void Report(const Error& error) {
    counters_.Update([&](ConsumerStats& stats) {
      stats.broker_reachable = false;
      stats.problem = error.ToString();
      stats.problem_code = error.code();
      CountFailure(stats, error.code());
    });
  }

  /// False while there is no subscription; tried again with a growing wait.
  bool EnsureSubscription() {
    if (subscription_) return true;
    if (clock_.SinceBoot() < reopen_at_) return false;
    auto opened = open_subscription_();
    if (opened) {
      subscription_ = std::move(opened).value();
      opened_at_ = clock_.SinceBoot();
      return true;
    }
    if (IsWorthALine(opened.error())) {
      LogWarning(
          "the broker cannot be read",
          {{"consumer", options_.consumer}, {"code", opened.error().code()}, {"error", opened.error().ToString()}});
    }
    Report(opened.error());
    ReopenLater();
    return false;
  }

  void ReopenLater() {
    reopen_at_ = clock_.SinceBoot() + reopen_wait_;
    reopen_wait_ = std::min(reopen_wait_ * 2, kReopenMax);
  }

  /// The first trouble of a series and one that differs from the last; the rest at growing distances.
  bool IsWorthALine(const Error& error) {
    const BootTime now = clock_.SinceBoot();
    if (error.code() != trouble_code_) {
      trouble_code_ = error.code();
      log_wait_ = kLogAgainMin;
    } else if (now < log_at_) {
      return false;
    }
    log_at_ = now + log_wait_;
    log_wait_ = std::min<std::chrono::milliseconds>(log_wait_ * 2, kLogAgainMax);
    return true;
  }

  /// Opening connects nothing, and a broker may refuse a topic while it hands out another: only time tells.
  void NoteGoodPoll() {
    if (reopen_wait_ == kReopenMin || clock_.SinceBoot() - opened_at_ < kSettled) return;
    reopen_wait_ = kReopenMin;
    trouble_code_.clear();
  }

  Status PollOnce(std::chrono::milliseconds wait, ConsumerReport& report) {
    if (!EnsureSubscription()) return Ok();
    RestartSuperseded();
    LookAtStopped();
    CheckTopics();
    StartAttached();
    AttachGained();
    Pace();
    if (!unattached_.empty()) wait = std::min(wait, std::chrono::milliseconds{50});
    const std::size_t room = options_.memory_max - std::min(options_.memory_max, in_flight_.bytes.load());
    auto polled = subscription_->Poll(options_.poll_messages, std::max<std::size_t>(room, 1), wait);
    if (!polled) {
      if (!MayJoinAgain(polled.error())) return std::move(polled).error();
      if (IsWorthALine(polled.error())) {
        LogError(
            "the broker refuses us",
            {{"consumer", options_.consumer}, {"code", polled.error().code()}, {"error", polled.error().ToString()}});
      }
      Report(polled.error());
      for (auto& [partition, run] : runs_) run->Cancel();
      runs_.clear();
      saver_.Watch(runs_);
      committed_.clear();
      unattached_.clear();
      stopped_.clear();
      starting_.clear();
      releasing_.clear();
      paused_ = false;
      subscription_.reset();
      ReopenLater();
      return Ok();
    }
    NoteGoodPoll();
    CrashPoint("inbox.polled");
    if (!polled->lost.empty()) Lose(polled->lost);
    if (!polled->leaving.empty()) {
      HandOver(polled->leaving);
      releasing_.insert(releasing_.end(), polled->leaving.begin(), polled->leaving.end());
    }
    SEALANE_RETURN_IF_ERROR(ReleaseLeft());
    ++in_flight_.polls;
    if (!polled->gained.empty()) {
      unattached_.insert(unattached_.end(), polled->gained.begin(), polled->gained.end());
      AttachGained();
    }
    report.rebalanced = !polled->lost.empty() || !polled->leaving.empty() || !polled->gained.empty();
    report.received = polled->messages.size();
    for (ReceivedMessage& message : polled->messages) Dispatch(std::move(message));
    CommitDone(false);
    NoteNoPartitions();
    Tell();
    return Ok();
  }

  /// A topic whose name is mistaken looks like a member that stands by: nothing ever comes. So it is said, once.
  void NoteNoPartitions() {
    if (!runs_.empty() || !unattached_.empty() || !stopped_.empty()) return idle_told_at_.reset();
    const BootTime now = clock_.SinceBoot();
    if (!idle_told_at_) idle_told_at_ = now + kIdleTold;
    if (now < *idle_told_at_) return;
    idle_told_at_ = BootTime::max();
    const auto problem = subscription_->health().problem;
    LogInfo("no partitions yet", {{"consumer", options_.consumer},
                                  {"problem", problem ? problem->ToString()
                                                      : "a topic is missing, or other members have all partitions"}});
  }

  /// A broker that is busy is asked again with the next poll: it tells only once that a partition is to leave.
  Status ReleaseLeft() {
    if (releasing_.empty()) return Ok();
    auto released = subscription_->Release(releasing_);
    if (!released) {
      const ErrorKind kind = released.error().kind();
      if (kind != ErrorKind::kConflict && kind != ErrorKind::kUnavailable) return released;
      LogWarning("partitions could not be given back yet", {{"consumer", options_.consumer},
                                                            {"code", released.error().code()},
                                                            {"error", released.error().ToString()}});
      return Ok();
    }
    releasing_.clear();
    return Ok();
  }

  /// A wrong set-up may be put right while we wait. Being fenced once may mean that a broker has forgotten who we
  /// are; twice within a minute it means that another process goes by our name. Everything else would be wrong to go
  /// on with.
  bool MayJoinAgain(const Error& error) {
    if (error.kind() == ErrorKind::kFenced) {
      const BootTime now = clock_.SinceBoot();
      const bool again = fenced_at_ && now - *fenced_at_ < kFencedOnce;
      fenced_at_ = now;
      return !again;
    }
    // Where to go on is decided when the partition is attached again, and stops that partition alone.
    if (error.code() == "offset_out_of_range") return true;
    return error.kind() == ErrorKind::kMisconfigured || error.kind() == ErrorKind::kUnavailable;
  }

  /// New partitions are read only after the store knows that they are ours, and from where the store says.
  void AttachGained() {
    if (unattached_.empty() || clock_.SinceBoot() < attach_at_) return;
    auto facts = subscription_->Inspect(unattached_);
    if (!facts) return AttachLater("partitions cannot be looked at", facts.error());
    std::map<Partition, PartitionFacts> known;
    for (PartitionFacts& fact : *facts) known[fact.partition] = std::move(fact);
    std::vector<AttachedPartition> attached = AttachMost();
    if (attached.empty()) return;
    CrashPoint("inbox.attached");
    auto store = gate_.Store();
    if (!store) return;
    for (std::size_t i = 0; i < attached.size(); ++i) {
      if (auto begun = Begin(**store, attached[i], known.at(attached[i].partition)); !begun) {
        // These were ours without a death; the next attempt attaches them again.
        if (!(*store)->Detach(std::span(attached).subspan(i))) gate_.Drop();
        AttachLater("a partition cannot be begun", begun.error());
        break;
      }
    }
    saver_.Watch(runs_);
    StartAttached();
  }

  /// Starts or stops a partition that was attached.
  Status Begin(InboxStore& store, AttachedPartition& attached, const PartitionFacts& facts) {
    SEALANE_ASSIGN_OR_RETURN(const PartitionBeginning beginning, BeginningOf(attached, facts));
    const Partition partition = attached.partition;
    if (beginning.stop) {
      if (!attached.stop) SEALANE_RETURN_IF_ERROR(store.Stop(attached, *beginning.stop));
      SEALANE_RETURN_IF_ERROR(store.Detach({&attached, 1}));
      StopReading(partition, *beginning.stop, facts.end - facts.oldest);
      return Ok();
    }
    if (beginning.place) {
      SEALANE_RETURN_IF_ERROR(store.Place(attached, beginning.offset, facts.topic_id));
      if (attached.resume) {
        LogInfo("a partition goes on where an operator decided", {{"consumer", options_.consumer},
                                                                  {"topic", partition.topic},
                                                                  {"partition", partition.number},
                                                                  {"from", ToString(*attached.resume)},
                                                                  {"offset", beginning.offset}});
      }
      attached.next_offset = beginning.offset;
      attached.topic_id = facts.topic_id;
      attached.witness.reset();
    }
    if (attached.deaths >= kDeathsUntilCare) {
      LogWarning("processes died at this partition: going on one event at a time", {{"consumer", options_.consumer},
                                                                                    {"topic", partition.topic},
                                                                                    {"partition", partition.number},
                                                                                    {"deaths", attached.deaths}});
    }
    std::erase(unattached_, partition);
    stopped_.erase(partition);
    anchors_[partition] = attached.witness;
    starting_.push_back({partition, beginning.offset});
    runs_[partition] = std::make_shared<PartitionRun>(std::move(attached), store.life(), options_.recent_max);
    return Ok();
  }

  void AttachLater(std::string_view what, const Error& error) {
    attach_at_ = clock_.SinceBoot() + kAttachAgain;
    if (attach_troubles_++ == 0) {
      LogWarning(what, {{"consumer", options_.consumer}, {"code", error.code()}, {"error", error.ToString()}});
    }
    counters_.Update([&](ConsumerStats& stats) { CountFailure(stats, error.code()); });
  }

  /// Asks the broker what the decision needs.
  Result<PartitionBeginning> BeginningOf(const AttachedPartition& attached, const PartitionFacts& facts) {
    std::optional<ReceivedMessage> at_witness;
    std::optional<std::int64_t> at_time;
    if (attached.resume && attached.resume->kind == ResumePoint::Kind::kTime) {
      SEALANE_ASSIGN_OR_RETURN(at_time, subscription_->OffsetAt(attached.partition, attached.resume->time));
    } else if (!attached.resume && !attached.stop && attached.witness && attached.witness->offset >= facts.oldest &&
               attached.witness->offset < facts.end) {
      const PartitionOffset place{attached.partition, attached.witness->offset};
      SEALANE_ASSIGN_OR_RETURN(auto messages, subscription_->MessagesAt({&place, 1}));
      at_witness = std::move(messages.front());
    }
    return DecideBeginning(attached, facts, at_witness, at_time);
  }

  /// The partition stays ours, and nothing of it is read.
  void StopReading(const Partition& partition, const PartitionStop& stop, std::int64_t messages) {
    std::erase(unattached_, partition);
    const bool known = stopped_.contains(partition);
    stopped_[partition] = {stop, messages, clock_.SinceBoot() + kLookAtStopped};
    if (known) return;
    LogError("a partition is stopped", {{"consumer", options_.consumer},
                                        {"topic", partition.topic},
                                        {"partition", partition.number},
                                        {"code", stop.code},
                                        {"error", stop.message},
                                        {"command", ResumeCommand(partition)}});
  }

  std::string ResumeCommand(const Partition& partition) const {
    return "sealane inbox resume --consumer " + options_.consumer + " --topic " + partition.topic + " --partition " +
           std::to_string(partition.number) + " --from beginning|now|group|OFFSET|TIME --reason TEXT";
  }

  Error StoppedError() const {
    const auto& [partition, stopped] = *stopped_.begin();
    return Error(ErrorKind::kMisconfigured, stopped.stop.code,
                 "partition " + std::to_string(partition.number) + " of " + partition.topic +
                     " is stopped: " + stopped.stop.message)
        .WithHint("decide where it goes on: " + ResumeCommand(partition));
  }

  /// An operator may have decided meanwhile.
  void LookAtStopped() {
    const BootTime now = clock_.SinceBoot();
    for (auto& [partition, stopped] : stopped_) {
      if (now < stopped.look_at) continue;
      stopped.look_at = now + kLookAtStopped;
      if (std::ranges::find(unattached_, partition) == unattached_.end()) unattached_.push_back(partition);
    }
  }

  /// The broker is asked first: it may be about to tell that the partition is not ours any more. A poll that ends may
  /// have begun before; the next one did not.
  void RestartSuperseded() {
    bool any = false;
    for (auto entry = runs_.begin(); entry != runs_.end();) {
      const auto after = entry->second->superseded_after();
      if (!after || in_flight_.polls - *after < kPollsUntilRestarted) {
        ++entry;
        continue;
      }
      LogWarning("the store is another one, or an operator moved the position: reading from where the store stands",
                 {{"consumer", options_.consumer},
                  {"topic", entry->first.topic},
                  {"partition", entry->first.number},
                  {"offset", entry->second->saved()}});
      counters_.Update([](ConsumerStats& stats) { ++stats.reread; });
      // If it is still ours (a commit in doubt), this is no death of an owner.
      AttachedPartition name;
      name.partition = entry->first;
      name.epoch = entry->second->epoch();
      if (auto store = gate_.Store(); !store || !(*store)->Detach({&name, 1})) gate_.Drop();
      std::erase_if(starting_, [&](const PartitionStart& start) { return start.partition == entry->first; });
      committed_.erase(entry->first);
      unattached_.push_back(entry->first);
      entry = runs_.erase(entry);
      any = true;
    }
    if (any) saver_.Watch(runs_);
  }

  bool AnySuperseded() const {
    return std::ranges::any_of(runs_, [](const auto& entry) { return entry.second->superseded_after().has_value(); });
  }

  /// A topic can be made again while we read it. Where the broker itself does not notice, a message that we know
  /// tells.
  void CheckTopics() {
    const BootTime now = clock_.SinceBoot();
    if (now < check_at_ || !subscription_->health().reachable) return;
    check_at_ = now + options_.topic_check_interval;
    std::erase_if(anchors_, [&](const auto& entry) { return !runs_.contains(entry.first); });
    std::vector<Partition> partitions;
    std::vector<PartitionOffset> places;
    for (const auto& [partition, run] : runs_) {
      auto& anchor = anchors_[partition];
      const auto witness = run->witness();
      // Without progress there is nothing that could have been passed over.
      if (!witness || !anchor || run->superseded_after() || anchor->offset == witness->offset) continue;
      partitions.push_back(partition);
      places.push_back({partition, anchor->offset});
    }
    if (partitions.empty()) return;
    auto facts = subscription_->Inspect(partitions);
    auto messages = facts ? subscription_->MessagesAt(places)
                          : Result<std::vector<std::optional<ReceivedMessage>>>(facts.error());
    if (!messages) return AttachLater("topics cannot be compared", messages.error());
    for (std::size_t i = 0; i < partitions.size(); ++i) {
      PartitionRun& run = *runs_.at(partitions[i]);
      auto& anchor = anchors_[partitions[i]];
      AttachedPartition seen = run.attached();
      seen.witness = anchor;
      const auto beginning = DecideBeginning(seen, (*facts)[i], (*messages)[i], {});
      if (beginning.stop && beginning.stop->code == "topic_recreated") {
        anchor.reset();
        HoldRecreated(run, *beginning.stop);
      } else {
        anchor = run.witness();
      }
    }
  }

  /// What was read since is of another topic than the position. It stays applied; what else is in the new one is for
  /// an operator to decide.
  void HoldRecreated(PartitionRun& run, const PartitionStop& stop) {
    auto store = gate_.Store();
    if (!store) return;
    if (auto noted = (*store)->Stop(run.attached(), stop); !noted) {
      if (noted.error().kind() != ErrorKind::kFenced) gate_.Drop();
      return;
    }
    run.Supersede(in_flight_.polls);
  }

  /// A broker that refuses for now is asked again with the next poll.
  void StartAttached() {
    if (starting_.empty()) return;
    if (auto begun = subscription_->Start(starting_); !begun) return Report(begun.error());
    std::vector<Partition> started;
    for (const PartitionStart& start : starting_) started.push_back(start.partition);
    starting_.clear();
    // Too much is under way already: these wait like the others.
    if (paused_ && !subscription_->Pause(started)) paused_ = false;
  }

  /// All at once; when somebody who hangs in a transaction keeps one of them, the others one by one.
  std::vector<AttachedPartition> AttachMost() {
    std::vector<AttachedPartition> done;
    auto store = gate_.Store();
    auto all = store ? (*store)->Attach(unattached_, options_.recent_max)
                     : Result<std::vector<AttachedPartition>>(std::move(store).error());
    if (all) {
      attach_troubles_ = 0;
      return std::move(all).value();
    }
    AttachLater("partitions cannot be taken in the store", all.error());
    if (all.error().kind() != ErrorKind::kConflict || unattached_.size() == 1) {
      gate_.Drop();
      return done;
    }
    for (std::size_t i = 0; i < unattached_.size(); ++i) {
      auto one = (*store)->Attach({&unattached_[i], 1}, options_.recent_max);
      if (one) {
        done.push_back(std::move(one->front()));
        continue;
      }
      if (one.error().kind() != ErrorKind::kConflict) {
        gate_.Drop();
        return done;
      }
      // Polling must not wait for more than one of these; it is the last to be tried next time.
      std::rotate(unattached_.begin() + static_cast<std::ptrdiff_t>(i),
                  unattached_.begin() + static_cast<std::ptrdiff_t>(i) + 1, unattached_.end());
      return done;
    }
    return done;
  }

  void Lose(const std::vector<Partition>& partitions) {
    for (const Partition& partition : partitions) {
      std::erase(unattached_, partition);
      stopped_.erase(partition);
      std::erase_if(starting_, [&](const PartitionStart& start) { return start.partition == partition; });
      const auto run = runs_.find(partition);
      if (run == runs_.end()) continue;
      run->second->Cancel();
      runs_.erase(run);
      committed_.erase(partition);
      counters_.Update([](ConsumerStats& stats) { ++stats.fenced; });
    }
    saver_.Watch(runs_);
  }

  /// Lets transactions under way finish, commits what is done, and says that it was a clean end.
  void HandOver(const std::vector<Partition>& partitions) {
    std::vector<std::shared_ptr<PartitionRun>> leaving;
    for (const Partition& partition : partitions) {
      std::erase(unattached_, partition);
      stopped_.erase(partition);
      std::erase_if(starting_, [&](const PartitionStart& start) { return start.partition == partition; });
      if (const auto run = runs_.find(partition); run != runs_.end()) {
        run->second->Cancel();
        leaving.push_back(run->second);
      }
    }
    const BootTime deadline = clock_.SinceBoot() + options_.handover_patience;
    const auto busy = [&] {
      return std::ranges::any_of(leaving, [](const auto& run) { return run->busy.load() > 0; });
    };
    while (busy() && clock_.SinceBoot() < deadline) clock_.SleepFor(std::chrono::milliseconds{1}, {});
    CrashPoint("inbox.before_handover");
    saver_.SaveThrough(gate_, leaving);
    std::vector<PartitionOffset> positions;
    std::vector<AttachedPartition> attached;
    for (const auto& run : leaving) {
      if (const auto done = CommittableOf(*run)) positions.push_back({run->partition(), *done});
      // One that is still busy may die with its transaction: that is for its heir to know.
      if (run->busy.load() == 0) {
        AttachedPartition name;
        name.partition = run->partition();
        name.epoch = run->epoch();
        attached.push_back(std::move(name));
      }
      runs_.erase(run->partition());
      committed_.erase(run->partition());
    }
    saver_.Watch(runs_);
    if (!positions.empty() && subscription_) (void)subscription_->Commit(positions, true);
    if (attached.empty()) return;
    if (auto store = gate_.Store(); !store || !(*store)->Detach(attached)) gate_.Drop();
  }

  /// What the broker may be told: not more than the store knows, so that its position is never behind the group's.
  std::optional<std::int64_t> CommittableOf(const PartitionRun& run) const {
    if (run.superseded_after()) return std::nullopt;
    const auto low = run.low_water();
    if (!low || options_.mode == InboxMode::kOffsets) return low;
    return std::min(*low, run.saved());
  }

  void Dispatch(ReceivedMessage message) {
    const auto run = runs_.find(message.partition);
    if (run == runs_.end()) return;
    run->second->Begin(message.offset);
    counters_.Update([](ConsumerStats& stats) { ++stats.received; });
    std::size_t slot = 0;
    if (options_.mode == InboxMode::kOffsets || run->second->serial()) {
      slot = LaneHash(message.partition.topic) + static_cast<std::size_t>(message.partition.number);
    } else {
      slot = LaneHash(message.key.empty() ? UnitOf(message) : message.key);
    }
    workers_[slot % workers_.size()]->Push(run->second, std::move(message));
  }

  /// Too much under way: reading pauses, and goes on when half of it is done. Pausing is costly, so not for less.
  void Pace() {
    const std::size_t bytes = in_flight_.bytes;
    std::vector<Partition> all;
    if (!paused_ && bytes >= options_.memory_max) {
      for (const auto& [partition, run] : runs_) all.push_back(partition);
      if (subscription_->Pause(all)) {
        paused_ = true;
        counters_.Update([](ConsumerStats& stats) { ++stats.pauses; });
      }
    } else if (paused_ && bytes <= options_.memory_max / 2) {
      for (const auto& [partition, run] : runs_) all.push_back(partition);
      if (subscription_->Resume(all)) paused_ = false;
    }
  }

  void CommitDone(bool wait) {
    if (!subscription_ || (!wait && clock_.SinceBoot() < commit_at_)) return;
    commit_at_ = clock_.SinceBoot() + options_.commit_interval;
    std::vector<PartitionOffset> positions;
    for (const auto& [partition, run] : runs_) {
      // The first message of a partition that was empty: from now on it tells the topic.
      if (auto& anchor = anchors_[partition]; !anchor) anchor = run->witness();
      const auto low = CommittableOf(*run);
      if (!low) continue;
      auto& committed = committed_[partition];
      if (*low <= committed) continue;
      committed = *low;
      positions.push_back({partition, *low});
    }
    if (positions.empty()) return;
    CrashPoint("inbox.before_commit");
    (void)subscription_->Commit(positions, wait);
    CrashPoint("inbox.committed");
  }

  /// Silence proves nothing. A member without partitions stands by: what the others have may become its own.
  bool CaughtUp() const {
    if (!subscription_ || (runs_.empty() && stopped_.empty()) || paused_ || in_flight_.messages > 0) return false;
    if (std::ranges::any_of(unattached_, [&](const Partition& one) { return !stopped_.contains(one); })) return false;
    if (AnySuperseded()) return false;
    // Whoever asked for a retry and then for all there is to do means both. What was committed since the last look
    // may have made something due.
    if (nothing_due_after_ != Batches()) return false;
    if (!subscription_->health().reachable) return false;
    return std::ranges::all_of(runs_, [&](const auto& entry) {
      const auto position = subscription_->Position(entry.first);
      const auto end = subscription_->EndOffset(entry.first);
      return entry.second->in_flight() == 0 && position && end && *position >= *end;
    });
  }

  /// What was set aside, and housekeeping. Runs in a thread of its own, with a connection of its own.
  std::size_t KeepOnce(const std::stop_token& stop) {
    const BootTime now = clock_.SinceBoot();
    if (now < retry_at_ && (now < nudge_at_ || !permits_.TakeNudge())) return 0;
    (void)permits_.TakeNudge();
    nudge_at_ = now + options_.retry_interval;
    TellHold();
    const std::uint64_t batches = Batches();
    auto retried = keeper_.Retry(read_, kRetryUnits, stop);
    retry_at_ = now + look_idle_;
    if (retried && retried->next_due)
      retry_at_ = std::min<BootTime>(retry_at_, clock_.SinceBoot() + *retried->next_due);
    retry_at_ = std::max<BootTime>(retry_at_, now + keeper_.look_took() * kLookShare);
    // What was tried may have made more due: at once, as long as that goes on.
    if (retried && retried->tried > 0) retry_at_ = clock_.SinceBoot();
    if (retried && retried->tried == 0) retry_at_ = std::max<BootTime>(retry_at_, now + options_.retry_interval);
    if (!retried) {
      if (retry_troubles_++ == 0) {
        LogWarning("what was set aside cannot be tried", {{"consumer", options_.consumer},
                                                          {"code", retried.error().code()},
                                                          {"error", retried.error().ToString()}});
      }
      retry_at_ = std::max<BootTime>(retry_at_, now + std::chrono::seconds{1});
      return 0;
    }
    retry_troubles_ = 0;
    if (stop.stop_requested()) return retried->tried;
    nothing_due_after_ = retried->tried == 0 && !retried->more ? batches : kNeverLooked;
    const std::uint64_t moved = Moved();
    if (now >= count_at_ && (now >= count_idle_at_ || moved != moved_before_)) {
      moved_before_ = moved;
      CountParked();
      const BootTime count_took = clock_.SinceBoot() - now;
      count_at_ = now + std::max<BootTime>(kCountInterval, count_took * kCountShare);
      count_idle_at_ = now + std::max<BootTime>(kCountIdle, count_took * kCountShare);
    }
    if (now >= tend_at_) {
      tend_at_ = now + options_.tend_interval;
      Tend();
    }
    return retried->tried;
  }

  /// Whether the consumer is paused or holds has to be known before the first event is applied.
  void HearFirst() {
    if (permits_.has_heard()) return;
    auto store = keeper_.Store();
    if (!store) return;
    auto look = (*store)->Look(options_.guard_versions, 1);
    if (!look) return keeper_.Drop();
    permits_.Heard(*look);
  }

  /// Writes down that the consumer holds, or goes on.
  void TellHold() {
    const auto untold = permits_.Untold();
    if (!untold) return;
    auto store = keeper_.Store();
    if (!store) return;
    if (!(*store)->SetHold(*untold)) return keeper_.Drop();
    permits_.Told(*untold);
  }

  /// Grows with everything that changes what is parked, as far as this member does it. While it is full, any other
  /// member or an operator may make room.
  std::uint64_t Moved() const {
    std::uint64_t moved = 0;
    counters_.Read([&](const ConsumerStats& stats) { moved = stats.parked_total + stats.retries; });
    return permits_.problem() ? moved_before_ + 1 : moved;
  }

  std::uint64_t Batches() const {
    std::uint64_t batches = 0;
    counters_.Read([&](const ConsumerStats& stats) { batches = stats.batches; });
    return batches;
  }

  void CountParked() {
    auto store = keeper_.Store();
    if (!store) return;
    auto counts = (*store)->Count(std::max(InboxCounts::kCountMax, options_.parked_max));
    if (!counts) return keeper_.Drop();
    permits_.NoteCounted(counts->parked);
    counters_.Update([&](ConsumerStats& stats) {
      stats.parked = counts->parked;
      stats.dead = counts->dead;
      stats.gaps = counts->gaps;
    });
  }

  void Tend() {
    auto store = keeper_.Store();
    if (!store) return;
    if (auto tended = (*store)->Tend(); !tended) {
      LogWarning(
          "housekeeping of the inbox failed",
          {{"consumer", options_.consumer}, {"code", tended.error().code()}, {"error", tended.error().ToString()}});
      return keeper_.Drop();
    }
    if (!options_.retention) return;
    // A new consumer takes events of any age: nothing of before its time can have been seen and forgotten.
    // By the store's clock: one member's wrong one must not make everybody forget.
    auto times = (*store)->Times();
    if (!times) return keeper_.Drop();
    const Timestamp before = times->now - *options_.retention;
    if (before < times->added_at) return;
    auto pruned = (*store)->Prune(before, kPruneRows);
    if (!pruned) return keeper_.Drop();
    if (pruned->more) tend_at_ = clock_.SinceBoot();
  }

  void Tell() {
    const Subscription::Health health = subscription_->health();
    std::vector<PartitionLag> lags;
    for (const auto& [partition, run] : runs_) {
      const auto done = run->in_flight() > 0 ? run->low_water() : subscription_->Position(partition);
      const auto end = subscription_->EndOffset(partition);
      lags.push_back({partition, done.value_or(0), done && end ? std::max<std::int64_t>(0, *end - *done) : 0});
    }
    const std::optional<Error> held = permits_.problem();
    counters_.Update([&](ConsumerStats& stats) {
      stats.broker_reachable = health.reachable;
      if (!health.reachable && health.problem) {
        stats.problem = health.problem->ToString();
        stats.problem_code = health.problem->code();
      } else if (health.reachable && stats.store_reachable) {
        stats.problem = stats.stuck;
        stats.problem_code = stats.stuck_code;
        if (stats.stuck.empty() && !stopped_.empty()) {
          const Error stop = StoppedError();
          stats.problem = stop.ToString();
          stats.problem_code = stop.code();
        }
      }
      stats.hold_code = held ? held->code() : "";
      if (held && health.reachable && stats.store_reachable && stats.stuck.empty()) {
        stats.problem = held->ToString();
        stats.problem_code = held->code();
      }
      stats.stopped.clear();
      for (const auto& [partition, stopped] : stopped_) {
        stats.stopped.push_back({partition, stopped.stop.code, stopped.stop.message, stopped.messages});
      }
      stats.partitions = std::move(lags);
      stats.inflight_messages = in_flight_.messages;
      stats.inflight_bytes = in_flight_.bytes;
      if (!stats.store_reachable || !stats.broker_reachable || !stats.stuck.empty() || !stopped_.empty() || held) {
        stats.state = ConsumerState::kHolding;
      } else {
        stats.state = runs_.empty() ? ConsumerState::kStarting : ConsumerState::kRunning;
      }
    });
  }

  const ConsumerOptions options_;
  const Handling handling_;
  const ReadEnvelope read_;
  const OpenSubscription open_subscription_;
  Clock& clock_;
  ConsumerCounters counters_;
  InFlight in_flight_;
  ConsumerGate permits_;

  // The thread that polls.
  Applier gate_;
  std::unique_ptr<Subscription> subscription_;
  std::vector<Partition> unattached_;
  std::vector<PartitionStart> starting_;  // attached, and the broker does not bring them yet
  std::vector<Partition> releasing_;      // handed over, and the broker does not know yet
  std::uint64_t attach_troubles_ = 0;
  std::map<Partition, std::shared_ptr<PartitionRun>> runs_;
  std::map<Partition, std::int64_t> committed_;
  struct Stopped {
    PartitionStop stop;
    std::int64_t messages = 0;
    BootTime look_at{0};
  };
  std::map<Partition, Stopped> stopped_;
  std::map<Partition, std::optional<Witness>> anchors_;  // what the next look at a topic compares
  BootTime check_at_{0};
  bool paused_ = false;
  BootTime reopen_at_{0};
  std::chrono::milliseconds reopen_wait_ = kReopenMin;
  BootTime opened_at_{0};
  std::string trouble_code_;  // the last that kept us from reading
  BootTime log_at_{0};
  std::chrono::milliseconds log_wait_ = kLogAgainMin;
  std::optional<BootTime> fenced_at_;
  std::optional<BootTime> idle_told_at_;  // when to say that we have no partitions; empty while we have some
  BootTime attach_at_{0};
  BootTime commit_at_{0};

  PositionSaver saver_;

  // The keeper.
  Applier keeper_;
  static constexpr std::uint64_t kNeverLooked = std::numeric_limits<std::uint64_t>::max();
  // So many batches were committed before its last look in this run, which found nothing; for the thread that polls.
  std::atomic<std::uint64_t> nothing_due_after_{kNeverLooked};
  std::uint64_t retry_troubles_ = 0;
  BootTime retry_at_{0};
  BootTime nudge_at_{0};
  std::chrono::milliseconds look_idle_ = options_.retry_interval;
  BootTime count_at_{0};
  BootTime count_idle_at_{0};
  std::uint64_t moved_before_ = 0;
  BootTime tend_at_{0};

  std::vector<std::unique_ptr<Worker>> workers_;
};

Consumer::Consumer(ConsumerOptions options, Handling handling, ReadEnvelope read, OpenInboxStore open_store,
                   OpenSubscription open_subscription, Clock& clock, Random& random)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handling), std::move(read), std::move(open_store),
                                   std::move(open_subscription), clock, random)) {}
Consumer::~Consumer() = default;

Result<ConsumerReport> Consumer::RunOnce() {
  return impl_->RunOnce();
}
Status Consumer::Run(std::stop_token stop, bool until_caught_up) {
  return impl_->Run(stop, until_caught_up);
}
Status Consumer::Close() {
  return impl_->Close();
}
ConsumerStats Consumer::stats() const {
  return impl_->stats();
}

}  // namespace sealane
