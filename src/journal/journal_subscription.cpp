#include "journal/journal_subscription.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/file_id.hpp"
#include "base/text.hpp"
#include "broker/interruption.hpp"
#include "journal/journal_group.hpp"
#include "journal/journal_reader.hpp"

namespace sealane {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kCommitEvery{50};
constexpr milliseconds kLookAgain{50};  // at a journal that is busy

/// A partition that this member has.
struct Hold {
  JournalClaim claim;
  bool started = false;
  bool paused = false;
  bool leaving = false;
  std::int64_t position = 0;
};

bool Passes(const Error& error) {
  return error.kind() == ErrorKind::kConflict || error.kind() == ErrorKind::kUnavailable;
}

constexpr std::string_view kReplaced = "journal_replaced";

Error OutOfRange(const Partition& partition, std::int64_t offset, std::int64_t first) {
  return Error(ErrorKind::kCorrupt, "offset_out_of_range",
               fmt::format("partition {} of {} is to be read from offset {}, and the oldest it has is {}",
                           partition.number, EscapeForTerminal(partition.topic), offset, first))
      .WithHint("find out what was removed unread; forgetting the group lets it begin at the oldest message");
}

ReceivedMessage Received(const Partition& partition, JournalMessage message) {
  return {.partition = partition,
          .offset = message.offset,
          .published_at = message.published_at,
          .key = std::move(message.key),
          .value = std::move(message.value),
          .headers = std::move(message.headers)};
}

class JournalSubscription final : public Subscription {
 public:
  JournalSubscription(JournalOptions journal, JournalSubscriptionOptions options, Clock& clock)
      : journal_(std::move(journal)),
        options_(std::move(options)),
        keep_every_(std::min<milliseconds>(options_.keep_every, options_.lease / 3)),
        clock_(clock),
        interruption_(clock) {}

  Status Join() {
    SEALANE_ASSIGN_OR_RETURN(
        member_,
        JournalGroupMember::Join(
            journal_,
            {.group = options_.group, .member = options_.member, .topics = options_.topics, .lease = options_.lease},
            clock_));
    SEALANE_ASSIGN_OR_RETURN(reader_, JournalReader::Open(journal_, clock_));
    was_joined_ = true;
    return Ok();
  }

  Result<Polled> Poll(std::size_t messages_max, std::size_t bytes_max, milliseconds wait) override {
    const BootTime deadline = clock_.SinceBoot() + wait;
    while (true) {
      const Status looked = Look({.messages_max = messages_max, .bytes_max = bytes_max}, pending_);
      if (!looked && looked.error().code() == kReplaced) LoseAll(pending_);
      SEALANE_RETURN_IF_ERROR(Judge(looked));
      const BootTime left = deadline - clock_.SinceBoot();
      if (!pending_.empty() || left.count() <= 0) break;
      const Status waited = looked ? AwaitNews(left) : WaitPatiently(left);
      SEALANE_RETURN_IF_ERROR(Judge(waited));
      if (interruption_.Take()) return Polled{};
    }
    interruption_.Take();
    return std::exchange(pending_, {});
  }

  Result<std::vector<PartitionFacts>> Inspect(std::span<const Partition> partitions) override {
    std::vector<PartitionFacts> facts;
    for (const Partition& partition : partitions) {
      SEALANE_ASSIGN_OR_RETURN(const JournalPlace place, PlaceOf(partition));
      // A group joins a partition at its oldest message; 0 is also where it stands when it has never committed.
      facts.push_back({.partition = partition,
                       .topic_id = fmt::format("{}/{}", reader_->Birth(), place.topic_id),
                       .oldest = place.first_offset,
                       .end = place.next_offset,
                       .group = place.group == 0 ? std::nullopt : place.group});
    }
    return facts;
  }

  Result<std::vector<std::optional<ReceivedMessage>>> MessagesAt(std::span<const PartitionOffset> places) override {
    std::vector<std::optional<ReceivedMessage>> messages;
    for (const PartitionOffset& place : places) {
      SEALANE_RETURN_IF_ERROR(PlaceOf(place.partition));
      auto found = reader_->Read(place.partition.topic, place.partition.number, place.offset, {.messages_max = 1});
      if (!found) return Unanswered(std::move(found).error());
      const bool there = !found->empty() && found->front().offset == place.offset;
      messages.push_back(there ? std::optional(Received(place.partition, std::move(found->front()))) : std::nullopt);
    }
    return messages;
  }

  Result<std::int64_t> OffsetAt(const Partition& partition, Timestamp time) override {
    SEALANE_ASSIGN_OR_RETURN(const JournalPlace place, PlaceOf(partition));
    auto found = reader_->OffsetAt(partition.topic, partition.number, time);
    if (!found) return Unanswered(std::move(found).error());
    return found->value_or(place.next_offset);
  }

  Status Start(std::span<const PartitionStart> partitions) override {
    for (const PartitionStart& start : partitions) {
      Hold* const hold = Find(start.partition);
      if (hold == nullptr || hold->leaving) continue;
      const auto owed = owed_.find(start.partition);
      hold->started = true;
      hold->position = start.offset.value_or(owed == owed_.end() ? hold->claim.next_offset : owed->second);
      // What a failed Poll() has read belongs to the time before.
      std::erase_if(pending_.messages,
                    [&](const ReceivedMessage& message) { return message.partition == start.partition; });
    }
    return Ok();
  }

  Status Release(std::span<const Partition> partitions) override {
    SEALANE_RETURN_IF_ERROR(Flush());
    for (const Partition& partition : partitions) {
      const Hold* const hold = Find(partition);
      if (hold == nullptr || !hold->leaving) continue;
      SEALANE_RETURN_IF_ERROR(member_->GiveBack(hold->claim));
      held_.erase(partition);
    }
    return Ok();
  }

  Status Commit(std::span<const PartitionOffset> positions, bool wait) override {
    for (const PartitionOffset& position : positions) {
      if (Find(position.partition) != nullptr) owed_[position.partition] = position.offset;
    }
    return wait ? Flush() : Ok();
  }

  Status Pause(std::span<const Partition> partitions) override { return SetPaused(partitions, true); }
  Status Resume(std::span<const Partition> partitions) override { return SetPaused(partitions, false); }

  std::optional<std::int64_t> EndOffset(const Partition& partition) const override {
    const auto found = ends_.find(partition);
    return found == ends_.end() ? std::nullopt : std::optional(found->second);
  }

  std::optional<std::int64_t> Position(const Partition& partition) const override {
    const auto found = held_.find(partition);
    if (found == held_.end() || !found->second.started) return std::nullopt;
    // What a failed Poll() has read is not handed out yet.
    const auto waiting = std::ranges::find(pending_.messages, partition, &ReceivedMessage::partition);
    return waiting == pending_.messages.end() ? found->second.position : waiting->offset;
  }

  Status Close() override {
    if (member_ == nullptr) return Ok();
    Status flushed = Flush();
    SEALANE_RETURN_IF_ERROR(member_->Leave());
    return flushed;
  }

  void Interrupt() override { interruption_.Raise(); }

  Health health() const override {
    const std::lock_guard lock(mutex_);
    return {.reachable = !problem_, .problem = problem_};
  }

 private:
  Hold* Find(const Partition& partition) {
    const auto found = held_.find(partition);
    return found == held_.end() ? nullptr : &found->second;
  }

  // For one that waits for an answer, a journal that is busy has none.
  static Error Unanswered(Error error) {
    if (error.kind() != ErrorKind::kConflict) return error;
    return Error(ErrorKind::kUnavailable, error.code(), error.message())
        .WithNative(error.native())
        .WithHint(error.hint());
  }

  Result<JournalPlace> PlaceOf(const Partition& partition) {
    if (reader_ == nullptr) {
      return Error(ErrorKind::kUnavailable, "journal_unreachable",
                   fmt::format("journal {} is not open yet", EscapeForTerminal(journal_.path)))
          .WithHint("wait; it is opened as soon as it is there");
    }
    auto place = reader_->Find(options_.group, partition.topic, partition.number);
    if (!place) return Unanswered(std::move(place).error());
    if (*place) return **place;
    return Error(ErrorKind::kUnavailable, "unknown_topic",
                 fmt::format("the journal has no partition {} of topic {}", partition.number,
                             EscapeForTerminal(partition.topic)))
        .WithHint("correct the name of the topic; the first message makes it");
  }

  Status SetPaused(std::span<const Partition> partitions, bool paused) {
    for (const Partition& partition : partitions) {
      if (Hold* const hold = Find(partition)) hold->paused = paused;
    }
    return Ok();
  }

  // What passes by itself becomes a matter of health; the rest stays an error.
  Status Judge(const Status& status) {
    const std::lock_guard lock(mutex_);
    if (status) {
      problem_.reset();
      return Ok();
    }
    problem_ = status.error();
    return Passes(status.error()) ? Ok() : status;
  }

  Status WaitPatiently(BootTime left) {
    clock_.SleepFor(std::min<BootTime>(left, kLookAgain), interruption_.Token());
    return Status(*health().problem);
  }

  Status AwaitNews(BootTime left) {
    BootTime until = std::min(left, keep_at_ - clock_.SinceBoot());
    if (!owed_.empty()) until = std::min<BootTime>(until, kCommitEvery);
    // At least a millisecond: a wait of none would be repeated without a rest.
    const milliseconds wait = std::max(std::chrono::ceil<milliseconds>(until), milliseconds{1});
    SEALANE_RETURN_IF_ERROR(reader_->AwaitChange(wait, interruption_.Token()));
    return Ok();
  }

  Status Look(const JournalReadLimits& limits, Polled& polled) {
    if (member_ == nullptr || reader_ == nullptr) SEALANE_RETURN_IF_ERROR(JoinAgain());
    if (!owed_.empty() && clock_.SinceBoot() >= flush_at_) SEALANE_RETURN_IF_ERROR(Flush());
    if (clock_.SinceBoot() >= keep_at_) SEALANE_RETURN_IF_ERROR(Keep(polled));
    return Read(limits, polled);
  }

  // A journal that was there before is not made anew: it would look as if nothing had ever been published.
  Status JoinAgain() {
    if (was_joined_ && !FileId::At(journal_.path)) {
      return Error(ErrorKind::kUnavailable, "journal_missing",
                   fmt::format("journal {} was removed while it was open", EscapeForTerminal(journal_.path)))
          .WithHint("put the file back, or restart this program to begin with a new one");
    }
    return Join();
  }

  // The journal is another file now, or an earlier copy of itself: whatever is known about it is about the old one.
  void LoseAll(Polled& polled) {
    for (const auto& [partition, hold] : held_) {
      std::erase(polled.leaving, partition);
      if (std::erase(polled.gained, partition) == 0) polled.lost.push_back(partition);
    }
    polled.messages.clear();
    held_.clear();
    owed_.clear();
    ends_.clear();
    member_.reset();
    reader_.reset();
    keep_at_ = BootTime{0};
  }

  Status Flush() {
    if (owed_.empty() || member_ == nullptr) return Ok();
    std::vector<std::pair<JournalClaim, std::int64_t>> positions;
    for (const auto& [partition, offset] : owed_) {
      if (const Hold* const hold = Find(partition)) positions.emplace_back(hold->claim, offset);
    }
    SEALANE_RETURN_IF_ERROR(member_->AcknowledgeAll(positions));
    for (const auto& [partition, offset] : owed_) {
      if (Hold* const hold = Find(partition)) hold->claim.next_offset = std::max(hold->claim.next_offset, offset);
    }
    owed_.clear();
    flush_at_ = clock_.SinceBoot() + kCommitEvery;
    return Ok();
  }

  Status Keep(Polled& polled) {
    SEALANE_ASSIGN_OR_RETURN(const std::vector<JournalClaim> claims, member_->Keep());
    keep_at_ = clock_.SinceBoot() + keep_every_;
    std::map<Partition, JournalClaim> by_partition;
    for (const JournalClaim& claim : claims) by_partition[{claim.topic, claim.partition}] = claim;
    std::erase_if(held_, [&](const auto& entry) {
      const auto found = by_partition.find(entry.first);
      // Under another epoch it was somebody else's in between.
      if (found != by_partition.end() && found->second.epoch == entry.second.claim.epoch) return false;
      std::erase(polled.leaving, entry.first);
      if (std::erase(polled.gained, entry.first) == 0) polled.lost.push_back(entry.first);
      std::erase_if(polled.messages,
                    [&](const ReceivedMessage& message) { return message.partition == entry.first; });
      owed_.erase(entry.first);
      return true;
    });
    for (const auto& [partition, claim] : by_partition) {
      const auto [entry, is_new] = held_.try_emplace(partition, Hold{.claim = claim});
      if (is_new) {
        polled.gained.push_back(partition);
      } else if (claim.leaving && !std::exchange(entry->second.leaving, true)) {
        polled.leaving.push_back(partition);
      }
    }
    return Ok();
  }

  Error WentBack() const {
    return Error(ErrorKind::kUnavailable, std::string(kReplaced),
                 fmt::format("journal {} was restored from an earlier copy while it was open",
                             EscapeForTerminal(journal_.path)))
        .WithHint("compare what was applied with what the journal has now");
  }

  // One query per topic says which partitions have something.
  Status LookAtEnds(std::map<Partition, JournalPartition>& ranges) {
    std::set<std::string> topics;
    for (const auto& [partition, hold] : held_) topics.insert(partition.topic);
    for (const std::string& topic : topics) {
      SEALANE_ASSIGN_OR_RETURN(std::vector<JournalPartition> partitions, reader_->Partitions(topic));
      for (JournalPartition& range : partitions) {
        const Partition partition{topic, range.partition};
        const auto before = ends_.find(partition);
        if (before != ends_.end() && range.next_offset < before->second) return WentBack();
        ends_[partition] = range.next_offset;
        ranges[partition] = std::move(range);
      }
    }
    return Ok();
  }

  // Partition after partition, beginning where the last call did not come to.
  Status Read(const JournalReadLimits& limits, Polled& polled) {
    std::map<Partition, JournalPartition> ranges;
    SEALANE_RETURN_IF_ERROR(LookAtEnds(ranges));
    std::vector<Partition> order;
    for (const auto& [partition, hold] : held_) {
      const JournalPartition& range = ranges[partition];
      if (!hold.started || hold.paused || hold.leaving || hold.position == range.next_offset) continue;
      if (hold.position < range.first_offset || hold.position > range.next_offset) {
        return OutOfRange(partition, hold.position, range.first_offset);
      }
      order.push_back(partition);
    }
    std::ranges::rotate(order, std::ranges::upper_bound(order, last_read_));
    std::size_t bytes = 0;
    for (const Partition& partition : order) {
      SEALANE_ASSIGN_OR_RETURN(const bool more, ReadOne(partition, limits, bytes, polled));
      if (!more) break;
    }
    return Ok();
  }

  // False when there is no room for more.
  Result<bool> ReadOne(const Partition& partition, const JournalReadLimits& limits, std::size_t& bytes,
                       Polled& polled) {
    Hold& hold = held_.at(partition);
    const std::size_t room = limits.messages_max - std::min(limits.messages_max, polled.messages.size());
    const JournalReadLimits rest{
        .messages_max = std::max<std::size_t>(room, 1),
        .bytes_max = std::max<std::size_t>(limits.bytes_max - std::min(limits.bytes_max, bytes), 1)};
    SEALANE_ASSIGN_OR_RETURN(std::vector<JournalMessage> found,
                             reader_->Read(partition.topic, partition.number, hold.position, rest));
    for (JournalMessage& message : found) {
      if (message.offset != hold.position) {
        // Removed at this moment: what was read is handed out first, and the next look finds the gap.
        if (!polled.messages.empty()) return false;
        return OutOfRange(partition, hold.position, message.offset);
      }
      ReceivedMessage received = Received(partition, std::move(message));
      bytes += received.bytes();
      const bool full = polled.messages.size() >= limits.messages_max || bytes > limits.bytes_max;
      if (full && !polled.messages.empty()) return false;
      hold.position = received.offset + 1;
      last_read_ = partition;
      polled.messages.push_back(std::move(received));
    }
    return true;
  }

  const JournalOptions journal_;
  const JournalSubscriptionOptions options_;
  const milliseconds keep_every_;
  Clock& clock_;
  Interruption interruption_;
  std::unique_ptr<JournalGroupMember> member_;  // null until the journal let us in
  std::unique_ptr<JournalReader> reader_;
  std::map<Partition, Hold> held_;
  std::map<Partition, std::int64_t> owed_;  // commits that are not written yet
  std::map<Partition, std::int64_t> ends_;
  Polled pending_;  // news that a failed Poll() did not tell
  Partition last_read_;
  bool was_joined_ = false;
  BootTime keep_at_{0};
  BootTime flush_at_{0};
  mutable std::mutex mutex_;
  std::optional<Error> problem_;  // guarded by mutex_
};

}  // namespace

Result<std::unique_ptr<Subscription>> OpenJournalSubscription(const JournalOptions& journal,
                                                              JournalSubscriptionOptions options, Clock& clock) {
  JournalOptions kept = journal;
  kept.path = AbsolutePath(journal.path);  // it is opened again after trouble
  auto subscription = std::make_unique<JournalSubscription>(std::move(kept), std::move(options), clock);
  if (Status joined = subscription->Join(); !joined && !Passes(joined.error())) return std::move(joined).error();
  return std::unique_ptr<Subscription>(std::move(subscription));
}

}  // namespace sealane
