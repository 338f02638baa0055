#include "kafka/kafka_subscription.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "kafka/consumer.hpp"
#include "kafka/consumer_conf.hpp"
#include "kafka/consumer_errors.hpp"
#include "kafka/health_board.hpp"
#include "kafka/kafka_errors.hpp"
#include "kafka/partition_queries.hpp"

namespace sealane {
namespace kafka {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kSliceMax{100};       // of a wait, between looks at what else is to be done
constexpr seconds kAnswerMax{10};            // for a commit that is waited for
constexpr milliseconds kAskMax{1'000};       // for the group's positions
constexpr milliseconds kInspectMax{5'000};   // for what is asked about partitions
constexpr milliseconds kTryAgainAfter{300};  // what an outage prevented
constexpr milliseconds kProbeEvery{1'000};
constexpr milliseconds kProbeMax{500};
constexpr milliseconds kLookEvery{1'000};  // for a topic that is missing
constexpr int kSilentProbes = 3;
constexpr seconds kQuietMax{5};  // without a sign of a broker
// A login that is refused while a broker restarts may be accepted a moment later.
constexpr seconds kRefusedFor{2};
constexpr seconds kCloseMax{5};

/// A partition that this member has.
struct Hold {
  enum class Phase : std::uint8_t { kGained, kStarting, kStarted, kLeaving };
  Phase phase = Phase::kGained;
  bool told = false;  // that it was gained
  bool paused = false;
  bool began_again = false;                     // it was started more than once
  bool heard_of = false;                        // something came of it since it was started
  std::int64_t next = RD_KAFKA_OFFSET_INVALID;  // where to read on; logical while the group has no position
};

/// Messages for one Poll().
struct Batch {
  std::size_t messages_max;
  std::size_t bytes_max;
  std::vector<ReceivedMessage> messages = {};
  std::size_t bytes = 0;

  bool HasRoom(const ReceivedMessage& message) const {
    return messages.empty() || (messages.size() < messages_max && bytes + message.bytes() <= bytes_max);
  }
  bool full() const { return !messages.empty() && (messages.size() >= messages_max || bytes >= bytes_max); }
  void Add(ReceivedMessage message) {
    bytes += message.bytes();
    messages.push_back(std::move(message));
  }
};

class KafkaSubscription final : public Subscription, private Consumer::Listener {
 public:
  KafkaSubscription(std::string mechanism, Clock& clock)
      : clock_(clock), board_(std::move(mechanism)), progress_at_(clock.SinceBoot()) {}

  Status Open(Conf conf, Conf peek_conf, std::span<const std::string> topics) {
    peek_conf_ = std::move(peek_conf);
    SEALANE_ASSIGN_OR_RETURN(consumer_, Consumer::Make(std::move(conf), topics, *this));
    return Ok();
  }

  Result<Polled> Poll(std::size_t messages_max, std::size_t bytes_max, milliseconds wait) override {
    const BootTime deadline = clock_.SinceBoot() + wait;
    Batch batch{.messages_max = messages_max, .bytes_max = bytes_max};
    while (true) {
      Attend();
      const auto left = std::chrono::ceil<milliseconds>(deadline - clock_.SinceBoot());
      const bool interrupted = interrupted_.exchange(false);
      Gather(batch, interrupted ? milliseconds{0} : std::clamp(left, milliseconds{0}, kSliceMax));
      if (auto failure = Failure()) {
        // The positions have moved on: what was read is kept for a caller that tries again, but for what a rebalance
        // has taken away meanwhile.
        std::erase_if(batch.messages, [&](const ReceivedMessage& message) { return !IsStarted(message.partition); });
        std::ranges::move(batch.messages, std::front_inserter(set_aside_));
        std::ranges::sort(set_aside_, {}, [](const ReceivedMessage& message) {
          return std::pair(message.partition, message.offset);
        });
        return *std::move(failure);
      }
      if (!batch.messages.empty() || HasNews() || interrupted || left <= milliseconds{0}) break;
    }
    return HandOut(std::move(batch));
  }

  Result<std::vector<PartitionFacts>> Inspect(std::span<const Partition> partitions) override {
    return Asked(FactsOf(*consumer_, partitions, kInspectMax));
  }

  Result<std::vector<std::optional<ReceivedMessage>>> MessagesAt(std::span<const PartitionOffset> places) override {
    return Asked(kafka::MessagesAt(*consumer_, *peek_conf_, places, kInspectMax));
  }

  Result<std::int64_t> OffsetAt(const Partition& partition, Timestamp time) override {
    return Asked(kafka::OffsetAt(*consumer_, partition, time, kInspectMax));
  }

  Status Start(std::span<const PartitionStart> partitions) override {
    for (const PartitionStart& start : partitions) {
      Hold* const hold = Find(start.partition);
      if (hold == nullptr || !hold->told || hold->phase == Hold::Phase::kLeaving) continue;
      hold->began_again = std::exchange(hold->phase, Hold::Phase::kStarting) != Hold::Phase::kGained;
      hold->heard_of = false;
      hold->next = start.offset.value_or(RD_KAFKA_OFFSET_STORED);
      DropSetAside(start.partition);
      out_of_range_.erase(start.partition);
    }
    StartPending();
    return Ok();
  }

  Status Release(std::span<const Partition> partitions) override {
    for (const Partition& partition : partitions) {
      const Hold* const hold = Find(partition);
      if (hold != nullptr && hold->phase == Hold::Phase::kLeaving) Forget(partition);
    }
    AnswerRevocation();
    return Ok();
  }

  Status Commit(std::span<const PartitionOffset> positions, bool wait) override {
    PartitionList list;
    for (const PartitionOffset& position : positions) {
      if (Find(position.partition) == nullptr) continue;
      list.Add(position.partition, position.offset);
      asked_[position.partition] = position.offset;
      owed_.erase(position.partition);
    }
    if (!wait) {
      Send(list);
      return Ok();
    }
    for (const auto& [partition, offset] : std::exchange(owed_, {})) list.Add(partition, offset);
    if (list.empty()) return Ok();
    const Event answer = consumer_->CommitAndWait(list, kAnswerMax);
    if (answer == nullptr) {
      return Error(ErrorKind::kUnavailable, "broker_unreachable",
                   fmt::format("a commit was not answered within {} s", kAnswerMax.count()))
          .WithHint("wait; what was not committed comes again");
    }
    const rd_kafka_resp_err_t error = JudgeCommit(*answer);
    if (TroubleOf(error) == ReadingTrouble::kNone) return Ok();
    if (TroubleOf(error) == ReadingTrouble::kFinal) return FinalError(error, rd_kafka_err2str(error));
    return Error(ErrorKind::kUnavailable, "broker_unreachable", rd_kafka_err2str(error))
        .WithNative(std::string(NameOf(error)))
        .WithHint("wait; what was not committed comes again");
  }

  Status Pause(std::span<const Partition> partitions) override {
    PartitionList list;
    for (const Partition& partition : partitions) {
      Hold* const hold = Find(partition);
      if (hold == nullptr || std::exchange(hold->paused, true)) continue;
      if (hold->phase != Hold::Phase::kStarted) continue;
      list.Add(partition);
      paused_inside_.insert(partition);
    }
    if (!list.empty()) consumer_->Pause(list);
    return Ok();
  }

  Status Resume(std::span<const Partition> partitions) override {
    PartitionList list;
    for (const Partition& partition : partitions) {
      Hold* const hold = Find(partition);
      if (hold == nullptr || !std::exchange(hold->paused, false)) continue;
      if (paused_inside_.erase(partition) > 0) list.Add(partition);
    }
    if (!list.empty()) consumer_->Resume(list);
    return Ok();
  }

  std::optional<std::int64_t> EndOffset(const Partition& partition) const override {
    const Hold* const hold = Find(partition);
    // Before, librdkafka remembers an end of an earlier time with the partition.
    return hold == nullptr || !hold->heard_of ? std::nullopt : consumer_->EndOffset(partition);
  }

  std::optional<std::int64_t> Position(const Partition& partition) const override {
    const Hold* const hold = Find(partition);
    if (hold == nullptr || hold->phase == Hold::Phase::kGained || hold->phase == Hold::Phase::kStarting) return {};
    const auto waiting = std::ranges::find(set_aside_, partition, &ReceivedMessage::partition);
    if (waiting != set_aside_.end()) return waiting->offset;
    return hold->next < 0 ? std::nullopt : std::optional(hold->next);
  }

  Status Close() override {
    closing_ = true;
    TakeCommitAnswers();
    Status committed = owed_.empty() ? Ok() : Commit({}, true);
    if (consumer_->Close(kCloseMax)) return committed;
    return Error(ErrorKind::kUnavailable, "broker_unreachable",
                 fmt::format("the group could not be left within {} s", kCloseMax.count()))
        .WithHint("the others take over when the session is over");
  }

  void Interrupt() override {
    interrupted_ = true;
    consumer_->Wake();
  }

  Health health() const override {
    if (const PublisherHealth brokers = board_.Read(); brokers.state != PublisherHealth::State::kReady) {
      return {.reachable = false, .problem = brokers.problem};
    }
    const std::lock_guard lock(mutex_);
    if (missing_topics_.empty()) return {};
    return {.reachable = false,
            .problem = Error(ErrorKind::kUnavailable, "unknown_topic",
                             fmt::format("there is no topic {}", EscapeForTerminal(*missing_topics_.begin())))
                           .WithHint("make the topic, or correct its name; it is read as soon as it is there")};
  }

 private:
  Hold* Find(const Partition& partition) {
    const auto found = held_.find(partition);
    return found == held_.end() ? nullptr : &found->second;
  }
  const Hold* Find(const Partition& partition) const {
    const auto found = held_.find(partition);
    return found == held_.end() ? nullptr : &found->second;
  }

  bool IsStarted(const Partition& partition) const {
    const Hold* const hold = Find(partition);
    return hold != nullptr && hold->phase == Hold::Phase::kStarted;
  }
  bool IsReadable(const Partition& partition) const { return IsStarted(partition) && !Find(partition)->paused; }

  // An answer is a sign of a broker.
  template <class T>
  Result<T> Asked(Result<T> answer) {
    if (answer) OnProgress();
    return answer;
  }

  bool HasNews() const { return !lost_.empty() || !leaving_.empty() || !gained_.empty(); }

  void Forget(const Partition& partition) {
    held_.erase(partition);
    asked_.erase(partition);
    owed_.erase(partition);
    out_of_range_.erase(partition);
    DropSetAside(partition);
  }

  void DropSetAside(const Partition& partition) {
    std::erase_if(set_aside_, [&](const ReceivedMessage& message) { return message.partition == partition; });
  }

  // ---- rebalances ----

  void OnAssigned(std::vector<Partition> partitions) override {
    OnProgress();
    if (partitions.empty() || closing_) {
      consumer_->Assign(PartitionList{});
      return;
    }
    // The group lets us in, so what it refused before is over. Fencing is not: there the consumer is at its end.
    if (final_ && final_->kind() == ErrorKind::kMisconfigured) final_.reset();
    const std::lock_guard lock(mutex_);
    for (Partition& partition : partitions) {
      missing_topics_.erase(partition.topic);
      forbidden_topics_.erase(partition.topic);
      held_[partition] = {};
      gained_.push_back(std::move(partition));
    }
  }

  void OnRevoked(bool lost) override {
    revoked_ = true;
    gained_.clear();
    std::vector<Partition> done;  // nobody has to release them
    for (auto& [partition, hold] : held_) {
      if (lost && hold.told) lost_.push_back(partition);
      if (lost || closing_ || !hold.told) {
        done.push_back(partition);
      } else if (std::exchange(hold.phase, Hold::Phase::kLeaving) != Hold::Phase::kLeaving) {
        leaving_.push_back(partition);
      }
    }
    if (lost) leaving_.clear();
    for (const Partition& partition : done) Forget(partition);
    out_of_range_.clear();
    AnswerRevocation();
  }

  void AnswerRevocation() {
    if (!revoked_ || !held_.empty()) return;
    revoked_ = false;
    // A pause would outlive the assignment.
    PartitionList paused;
    for (const Partition& partition : std::exchange(paused_inside_, {})) paused.Add(partition);
    if (!paused.empty()) consumer_->Resume(paused);
    consumer_->Unassign();
  }

  // ---- starting ----

  // librdkafka knows one list of all that is read, so those that read already go on where they are.
  void StartPending() {
    PartitionList unknown;
    bool any = false;
    for (const auto& [partition, hold] : held_) {
      if (hold.phase != Hold::Phase::kStarting) continue;
      any = true;
      if (hold.next == RD_KAFKA_OFFSET_STORED) unknown.Add(partition);
    }
    if (!any) return;
    if (!unknown.empty() && !AskWhereTheGroupStands(unknown)) return;
    PartitionList all;
    PartitionList paused;
    for (auto& [partition, hold] : held_) {
      if (hold.phase == Hold::Phase::kStarting) hold.phase = Hold::Phase::kStarted;
      if (hold.phase != Hold::Phase::kStarted) continue;
      all.Add(partition, hold.next);
      if (!hold.paused) continue;
      paused.Add(partition);
      paused_inside_.insert(partition);
    }
    consumer_->Assign(all);
    if (!paused.empty()) consumer_->Pause(paused);
  }

  bool AskWhereTheGroupStands(const PartitionList& partitions) {
    start_again_at_ = clock_.SinceBoot() + kTryAgainAfter;
    const rd_kafka_resp_err_t error = consumer_->Committed(partitions, kAskMax);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
      if (TroubleOf(error) == ReadingTrouble::kFinal) final_ = FinalError(error, rd_kafka_err2str(error));
      return false;
    }
    OnProgress();
    for (int i = 0; i < partitions.get()->cnt; ++i) {
      const rd_kafka_topic_partition_t& entry = partitions.get()->elems[i];
      held_.at(PartitionOf(entry)).next = entry.offset >= 0 ? entry.offset : RD_KAFKA_OFFSET_BEGINNING;
    }
    return true;
  }

  // ---- commits ----

  void Send(const PartitionList& positions) {
    if (!positions.empty()) consumer_->Commit(positions);
  }

  void TakeCommitAnswers() {
    while (const Event answer = consumer_->NextCommitted()) {
      const rd_kafka_resp_err_t error = JudgeCommit(*answer);
      const ReadingTrouble trouble = TroubleOf(error);
      if (trouble == ReadingTrouble::kFinal) final_ = FinalError(error, rd_kafka_err2str(error));
      const rd_kafka_topic_partition_list_t* const list = rd_kafka_event_topic_partition_list(answer.get());
      if (trouble != ReadingTrouble::kPasses || list == nullptr) continue;
      // Asked again, unless it is overtaken by a later commit.
      for (int i = 0; i < list->cnt; ++i) {
        const auto asked = asked_.find(PartitionOf(list->elems[i]));
        if (asked != asked_.end() && asked->second == list->elems[i].offset) owed_.insert(*asked);
      }
    }
  }

  rd_kafka_resp_err_t JudgeCommit(rd_kafka_event_t& answer) {
    rd_kafka_resp_err_t error = rd_kafka_event_error(&answer);
    const rd_kafka_topic_partition_list_t* const list = rd_kafka_event_topic_partition_list(&answer);
    for (int i = 0; list != nullptr && error == RD_KAFKA_RESP_ERR_NO_ERROR && i < list->cnt; ++i) {
      error = list->elems[i].err;
    }
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) OnProgress();
    return error;
  }

  // ---- polling ----

  // What is to be done besides reading.
  void Attend() {
    const BootTime now = clock_.SinceBoot();
    TakeCommitAnswers();
    if (!owed_.empty() && now >= commit_again_at_) {
      commit_again_at_ = now + kTryAgainAfter;
      PartitionList list;
      for (const auto& [partition, offset] : std::exchange(owed_, {})) list.Add(partition, offset);
      Send(list);
    }
    if (now >= start_again_at_) StartPending();
    LookAfterTheBrokers(now);
    LookForMissingTopics(now);
    if (board_.Read().state != PublisherHealth::State::kMisconfigured) {
      refused_since_.reset();
    } else if (!refused_since_) {
      refused_since_ = now;
    }
  }

  void OnProgress() {
    board_.OnProgress();
    progress_at_ = clock_.SinceBoot();
    suspicious_ = false;
    silent_probes_ = 0;
  }

  // librdkafka does not always say that all brokers are away, and never that they are back. While there is nothing to
  // read nothing else tells it either.
  void LookAfterTheBrokers(BootTime now) {
    const bool quiet = now - progress_at_ >= kQuietMax;
    if ((board_.is_ready() && !suspicious_ && !quiet) || now < probe_at_) return;
    probe_at_ = now + kProbeEvery;
    if (consumer_->Probe(kProbeMax)) {
      OnProgress();
    } else if (++silent_probes_ >= kSilentProbes && board_.is_ready()) {
      board_.OnSilence(Error(ErrorKind::kUnavailable, "broker_unreachable", "no broker answers")
                           .WithHint("check the network and whether the brokers run; it goes on by itself"));
    }
  }

  std::optional<Error> Failure() const {
    if (final_) return final_;
    if (!out_of_range_.empty()) return out_of_range_.begin()->second;
    if (!forbidden_topics_.empty()) return forbidden_topics_.begin()->second;
    const bool refused = refused_since_ && clock_.SinceBoot() - *refused_since_ >= kRefusedFor;
    return refused ? board_.Read().problem : std::nullopt;
  }

  // librdkafka does not say that a topic is there after all; a rebalance tells it only to those who get a part of it.
  // One topic at a time.
  void LookForMissingTopics(BootTime now) {
    if (now < look_at_ || !board_.is_ready()) return;
    std::string topic;
    {
      const std::lock_guard lock(mutex_);
      if (missing_topics_.empty()) return;
      const auto next = missing_topics_.upper_bound(looked_for_);
      topic = next == missing_topics_.end() ? *missing_topics_.begin() : *next;
    }
    look_at_ = now + kLookEvery;
    looked_for_ = topic;
    if (!consumer_->HasTopic(topic, kProbeMax)) return;
    const std::lock_guard lock(mutex_);
    missing_topics_.erase(topic);
  }

  // Waits for the first message only.
  void Gather(Batch& batch, milliseconds wait) {
    if (!TakeSetAside(batch)) wait = milliseconds{0};
    if (HasNews() || !batch.messages.empty()) wait = milliseconds{0};
    while (!batch.full() && !has_readable_aside_) {
      const MessageHandle message = consumer_->Poll(wait);
      wait = milliseconds{0};
      if (message == nullptr) return;
      if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        OnRemark(*message);
      } else {
        OnMessage(*message, batch);
      }
      if (HasNews() || Failure()) return;
    }
  }

  // Messages that had no room before, or belong to a partition that is paused. False when some still have no room.
  bool TakeSetAside(Batch& batch) {
    has_readable_aside_ = false;
    for (auto message = set_aside_.begin(); message != set_aside_.end();) {
      if (!IsReadable(message->partition)) {
        ++message;
        continue;
      }
      if (!batch.HasRoom(*message)) {
        has_readable_aside_ = true;
        return false;
      }
      batch.Add(std::move(*message));
      message = set_aside_.erase(message);
    }
    return true;
  }

  void OnMessage(const rd_kafka_message_t& message, Batch& batch) {
    OnProgress();
    Hold* const hold = Find(PartitionOf(message));
    if (hold == nullptr || hold->phase != Hold::Phase::kStarted || message.offset < hold->next) return;
    hold->next = message.offset + 1;
    hold->heard_of = true;
    if (!forbidden_topics_.empty()) forbidden_topics_.erase(PartitionOf(message).topic);
    ReceivedMessage copy = CopyOf(message);
    if (hold->paused || !batch.HasRoom(copy)) {
      has_readable_aside_ = has_readable_aside_ || !hold->paused;
      set_aside_.push_back(std::move(copy));
    } else {
      batch.Add(std::move(copy));
    }
  }

  // Everything below was read. The last offsets may hold no message: markers of transactions, and what they undid.
  void OnEnd(const rd_kafka_message_t& end) {
    OnProgress();
    Hold* const hold = Find(PartitionOf(end));
    if (hold == nullptr || hold->phase != Hold::Phase::kStarted) return;
    hold->next = std::max(hold->next, end.offset);
    hold->heard_of = true;
  }

  // What librdkafka says about the group, a topic or a partition.
  void OnRemark(const rd_kafka_message_t& remark) {
    if (remark.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) return OnEnd(remark);
    const Partition partition = PartitionOf(remark);
    const std::string_view text = rd_kafka_message_errstr(&remark);
    switch (TroubleOf(remark.err)) {
      case ReadingTrouble::kNone:
        return;
      case ReadingTrouble::kPasses:
        OnBrokerError(remark.err, text);
        return;
      case ReadingTrouble::kMissing: {
        const std::lock_guard lock(mutex_);
        if (!partition.topic.empty()) missing_topics_.insert(partition.topic);
        return;
      }
      case ReadingTrouble::kFinal:
        break;
    }
    const std::string where = fmt::format("topic {}, partition {}: {}", partition.topic, partition.number, text);
    if (remark.err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) {
      forbidden_topics_.insert_or_assign(partition.topic, FinalError(remark.err, where));
    } else if (Error error = FinalError(remark.err, where); error.code() != "offset_out_of_range") {
      SetFinal(remark.err, text);
    } else if (Hold* const hold = Find(partition); hold != nullptr && hold->phase == Hold::Phase::kStarted) {
      OnOutOfRange(partition, *hold, remark.offset, std::move(error));
    }
  }

  // librdkafka drops what it read before a partition began again, but not this remark, and it may have stopped to
  // read the partition because of it: a remark about another place than the new one is answered by beginning once
  // more.
  void OnOutOfRange(const Partition& partition, Hold& hold, std::int64_t offset, Error error) {
    const bool of_earlier = hold.began_again && !hold.heard_of && hold.next >= 0 && offset != hold.next;
    if (of_earlier) {
      hold.phase = Hold::Phase::kStarting;
      start_again_at_ = BootTime{0};
    } else {
      out_of_range_.insert_or_assign(partition, std::move(error));
    }
  }

  void OnBrokerError(rd_kafka_resp_err_t error, std::string_view text) override {
    if (TroubleOf(error) == ReadingTrouble::kFinal) {
      SetFinal(error, text);
    } else if (TroubleOf(error) == ReadingTrouble::kPasses) {
      suspicious_ = true;
      board_.OnBrokerError(error, text);
    }
  }

  void SetFinal(rd_kafka_resp_err_t error, std::string_view text) {
    final_ = FinalError(error == RD_KAFKA_RESP_ERR__FATAL ? consumer_->FatalError() : error, text);
  }

  Polled HandOut(Batch batch) {
    // A rebalance in the middle may have taken some of them away.
    std::erase_if(batch.messages, [&](const ReceivedMessage& message) { return !IsReadable(message.partition); });
    for (const Partition& partition : gained_) held_.at(partition).told = true;
    return {.lost = std::exchange(lost_, {}),
            .leaving = std::exchange(leaving_, {}),
            .gained = std::exchange(gained_, {}),
            .messages = std::move(batch.messages)};
  }

  Clock& clock_;
  HealthBoard board_;
  std::map<Partition, Hold> held_;
  bool revoked_ = false;               // and not answered yet
  std::set<Partition> paused_inside_;  // those that librdkafka knows to be paused
  std::vector<Partition> lost_;        // these three: not told yet
  std::vector<Partition> leaving_;
  std::vector<Partition> gained_;
  std::deque<ReceivedMessage> set_aside_;  // in the order of their offsets
  bool has_readable_aside_ = false;
  std::map<Partition, std::int64_t> asked_;        // the last commit
  std::map<Partition, std::int64_t> owed_;         // commits that an outage prevented
  std::map<Partition, Error> out_of_range_;        // until they leave or begin elsewhere
  std::map<std::string, Error> forbidden_topics_;  // until something comes of them
  std::optional<Error> final_;
  std::optional<BootTime> refused_since_;
  BootTime commit_again_at_{0};
  BootTime start_again_at_{0};
  BootTime probe_at_{0};
  BootTime look_at_{0};
  std::string looked_for_;
  BootTime progress_at_;     // the last sign of a broker
  bool suspicious_ = false;  // a broker was complained of since then
  int silent_probes_ = 0;
  bool closing_ = false;
  std::atomic<bool> interrupted_{false};
  Conf peek_conf_;
  mutable std::mutex mutex_;
  std::set<std::string> missing_topics_;  // guarded by mutex_
  std::unique_ptr<Consumer> consumer_;    // last: it calls back while it lives
};

}  // namespace
}  // namespace kafka

Result<std::unique_ptr<Subscription>> OpenKafkaSubscription(const KafkaSubscriptionOptions& options, Clock& clock) {
  SEALANE_ASSIGN_OR_RETURN(kafka::Conf conf, kafka::MakeConsumerConf(options));
  auto subscription = std::make_unique<kafka::KafkaSubscription>(kafka::PropertyOf(*conf, "sasl.mechanism"), clock);
  // The client that reads single messages is no member.
  KafkaSubscriptionOptions nameless = options;
  nameless.member.clear();
  SEALANE_ASSIGN_OR_RETURN(kafka::Conf peek_conf, kafka::MakeConsumerConf(nameless));
  SEALANE_RETURN_IF_ERROR(kafka::FetchLittle(*peek_conf));
  SEALANE_RETURN_IF_ERROR(subscription->Open(std::move(conf), std::move(peek_conf), options.topics));
  return std::unique_ptr<Subscription>(std::move(subscription));
}

}  // namespace sealane
