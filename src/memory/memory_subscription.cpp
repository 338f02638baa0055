#include "memory/memory_subscription.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "core/lane.hpp"
#include "memory/memory_groups.hpp"

namespace sealane {

using memory::Group;
using memory::GroupMember;
using memory::Hold;
using memory::PartitionLog;
using std::chrono::milliseconds;

/// What topics and members share, guarded by the mutex.
class MemoryTopics::Core {
 public:
  Core(Clock& the_clock, milliseconds the_session) : clock(the_clock), session(the_session) {}

  std::optional<Error> NextFault(Call call) {
    for (Fault& fault : faults) {
      if (fault.call != call || fault.times == 0) continue;
      if (fault.times != kAlways) --fault.times;
      return fault.error;
    }
    return std::nullopt;
  }

  void DealAll() {
    for (auto& [name, group] : groups) group.Deal(logs);
  }

  void Remember(Group& group, GroupMember& member) {
    if (commits_held || outage) return;
    for (const auto& [partition, offset] : std::exchange(member.uncommitted, {})) group.committed[partition] = offset;
  }

  std::int32_t PartitionCount(const std::string& topic) const {
    return static_cast<std::int32_t>(
        std::ranges::count_if(logs, [&](const auto& entry) { return entry.first.topic == topic; }));
  }

  void MakeTopic(const std::string& topic, std::int32_t partitions) {
    if (!topic_ids.contains(topic)) topic_ids[topic] = fmt::format("{}-{}", topic, ++topics_made);
    for (std::int32_t number = PartitionCount(topic); number < partitions; ++number) logs[{topic, number}];
    DealAll();
  }

  // Messages and positions are gone; who has its partitions keeps them.
  void EmptyTopic(const std::string& topic) {
    const auto of_topic = [&](const auto& entry) { return entry.first.topic == topic; };
    topic_ids.erase(topic);
    std::erase_if(logs, of_topic);
    for (auto& [name, group] : groups) {
      std::erase_if(group.committed, of_topic);
      for (auto& [id, member] : group.members) std::erase_if(member.uncommitted, of_topic);
    }
  }

  // Partitions that there are no more have no reader.
  void TakeMissing() {
    for (auto& [name, group] : groups) {
      for (auto& [id, member] : group.members) {
        const auto held = member.held;
        for (const auto& [partition, hold] : held) {
          if (!logs.contains(partition)) group.Take(id, partition);
        }
      }
    }
    DealAll();
  }

  // For a call that waits for an answer.
  std::optional<Error> Refusal(Call call) {
    if (auto fault = NextFault(call)) return fault;
    return outage;
  }

  Result<const PartitionLog*> LogOf(const Partition& partition) const {
    if (const auto found = logs.find(partition); found != logs.end()) return &found->second;
    return Error(ErrorKind::kUnavailable, "unknown_topic",
                 fmt::format("there is no partition {} of topic {}", partition.number, partition.topic))
        .WithHint("make the topic");
  }

  struct Fault {
    Call call;
    Error error;
    std::size_t times;
  };

  Clock& clock;
  const milliseconds session;
  mutable std::mutex mutex;
  std::condition_variable changed;
  memory::Logs logs;
  std::map<std::string, std::string> topic_ids;
  std::uint64_t topics_made = 0;
  bool tells_topic_ids = true;
  std::map<std::string, Group> groups;
  Group::MemberId next_member = 1;
  std::vector<Fault> faults;
  std::uint64_t polls = 0;
  bool messages_held = false;
  bool commits_held = false;
  std::optional<Error> outage;
};

class MemoryTopics::Member final : public Subscription {
 public:
  Member(std::shared_ptr<Core> core, Group& group, Group::MemberId id)
      : core_(std::move(core)), group_(group), id_(id) {}
  ~Member() override {
    const std::lock_guard lock(core_->mutex);
    if (closed_) return;
    self().uncommitted.clear();
    self().expires_at = core_->clock.SinceBoot() + core_->session;
    core_->changed.notify_all();
  }

  Result<Polled> Poll(std::size_t messages_max, std::size_t bytes_max, milliseconds wait) override {
    std::unique_lock lock(core_->mutex);
    ++core_->polls;
    if (auto fault = core_->NextFault(Call::kPoll)) return *std::move(fault);
    Polled polled;
    const auto deadline = std::chrono::steady_clock::now() + wait;
    while (true) {
      if (auto status = Look(messages_max, bytes_max, polled); !status) return std::move(status).error();
      const auto now = std::chrono::steady_clock::now();
      if (!polled.empty() || interrupted_ || now >= deadline) break;
      core_->changed.wait_until(lock, std::min(deadline, now + UntilNextBurial()));
    }
    interrupted_ = false;
    return polled;
  }

  Result<std::vector<PartitionFacts>> Inspect(std::span<const Partition> partitions) override {
    const std::lock_guard lock(core_->mutex);
    if (auto refusal = core_->Refusal(Call::kInspect)) return *std::move(refusal);
    std::vector<PartitionFacts> facts;
    for (const Partition& partition : partitions) {
      SEALANE_ASSIGN_OR_RETURN(const PartitionLog* const log, core_->LogOf(partition));
      facts.push_back({.partition = partition,
                       .topic_id = core_->tells_topic_ids ? core_->topic_ids.at(partition.topic) : "",
                       .oldest = log->first_offset,
                       .end = log->next_offset,
                       .group = group_.Committed(partition)});
    }
    return facts;
  }

  Result<std::vector<std::optional<ReceivedMessage>>> MessagesAt(std::span<const PartitionOffset> places) override {
    const std::lock_guard lock(core_->mutex);
    if (auto refusal = core_->Refusal(Call::kMessagesAt)) return *std::move(refusal);
    std::vector<std::optional<ReceivedMessage>> messages;
    for (const PartitionOffset& place : places) {
      SEALANE_ASSIGN_OR_RETURN(const PartitionLog* const log, core_->LogOf(place.partition));
      messages.push_back(log->At(place.offset));
    }
    return messages;
  }

  Result<std::int64_t> OffsetAt(const Partition& partition, Timestamp time) override {
    const std::lock_guard lock(core_->mutex);
    if (auto refusal = core_->Refusal(Call::kOffsetAt)) return *std::move(refusal);
    SEALANE_ASSIGN_OR_RETURN(const PartitionLog* const log, core_->LogOf(partition));
    return log->OffsetAt(time);
  }

  Status Start(std::span<const PartitionStart> partitions) override {
    const std::lock_guard lock(core_->mutex);
    if (auto fault = core_->NextFault(Call::kStart)) return *std::move(fault);
    for (const PartitionStart& start : partitions) {
      Hold* const hold = Find(start.partition);
      if (hold == nullptr || !hold->told || hold->leaving) continue;
      hold->started = true;
      hold->position = start.offset.value_or(
          group_.Committed(start.partition).value_or(core_->logs.at(start.partition).first_offset));
    }
    return Ok();
  }

  Status Release(std::span<const Partition> partitions) override {
    const std::lock_guard lock(core_->mutex);
    if (auto fault = core_->NextFault(Call::kRelease)) return *std::move(fault);
    for (const Partition& partition : partitions) {
      const Hold* const hold = Find(partition);
      if (hold != nullptr && hold->leaving) GiveUp(partition);
    }
    core_->changed.notify_all();
    return Ok();
  }

  Status Commit(std::span<const PartitionOffset> positions, bool wait) override {
    const std::lock_guard lock(core_->mutex);
    if (auto fault = core_->NextFault(Call::kCommit)) return *std::move(fault);
    for (const PartitionOffset& position : positions) {
      if (Find(position.partition) != nullptr) self().uncommitted[position.partition] = position.offset;
    }
    if (wait && core_->outage) return *core_->outage;
    const bool held = std::exchange(core_->commits_held, core_->commits_held && !wait);
    core_->Remember(group_, self());
    core_->commits_held = held;
    return Ok();
  }

  Status Pause(std::span<const Partition> partitions) override { return SetPaused(Call::kPause, partitions, true); }
  Status Resume(std::span<const Partition> partitions) override {
    return SetPaused(Call::kResume, partitions, false);
  }

  std::optional<std::int64_t> EndOffset(const Partition& partition) const override {
    const std::lock_guard lock(core_->mutex);
    const auto found = core_->logs.find(partition);
    return found == core_->logs.end() ? std::nullopt : std::optional(found->second.next_offset);
  }

  std::optional<std::int64_t> Position(const Partition& partition) const override {
    const std::lock_guard lock(core_->mutex);
    const Hold* const hold = Find(partition);
    return hold == nullptr || !hold->started ? std::nullopt : std::optional(hold->position);
  }

  Status Close() override {
    const std::lock_guard lock(core_->mutex);
    if (auto fault = core_->NextFault(Call::kClose)) return *std::move(fault);
    core_->Remember(group_, self());
    group_.members.erase(id_);
    closed_ = true;
    group_.Deal(core_->logs);
    core_->changed.notify_all();
    return Ok();
  }

  void Interrupt() override {
    {
      const std::lock_guard lock(core_->mutex);
      interrupted_ = true;
    }
    core_->changed.notify_all();
  }

  Health health() const override {
    const std::lock_guard lock(core_->mutex);
    return {.reachable = !core_->outage, .problem = core_->outage};
  }

 private:
  // All of these are called with the mutex held.
  GroupMember& self() const { return group_.members.at(id_); }

  Hold* Find(const Partition& partition) const {
    const auto found = self().held.find(partition);
    return found == self().held.end() ? nullptr : &found->second;
  }

  void GiveUp(const Partition& partition) {
    core_->Remember(group_, self());
    self().uncommitted.erase(partition);
    group_.Free(id_, partition);
    group_.Deal(core_->logs);
  }

  Status SetPaused(Call call, std::span<const Partition> partitions, bool paused) {
    const std::lock_guard lock(core_->mutex);
    if (auto fault = core_->NextFault(call)) return *std::move(fault);
    for (const Partition& partition : partitions) {
      if (Hold* const hold = Find(partition)) hold->paused = paused;
    }
    return Ok();
  }

  // Members that fell silent are found by those who wait for what they had.
  milliseconds UntilNextBurial() const {
    milliseconds next = core_->session;
    for (const auto& [id, member] : group_.members) {
      if (!member.expires_at) continue;
      next = std::min(next, std::chrono::ceil<milliseconds>(*member.expires_at - core_->clock.SinceBoot()));
    }
    return std::max(next, milliseconds{1});
  }

  Status Look(std::size_t messages_max, std::size_t bytes_max, Polled& polled) {
    if (core_->outage) return Ok();
    if (group_.BuryExpired(core_->clock.SinceBoot())) {
      group_.Deal(core_->logs);
      core_->changed.notify_all();
    }
    core_->Remember(group_, self());
    TellNews(polled);
    return core_->messages_held ? Ok() : Read(messages_max, bytes_max, polled);
  }

  void TellNews(Polled& polled) {
    polled.lost = std::exchange(self().lost, {});
    std::vector<Partition> unheard;  // they left before anybody knew that they came
    for (auto& [partition, hold] : self().held) {
      if (hold.leaving && !hold.told) {
        unheard.push_back(partition);
      } else if (hold.leaving && !std::exchange(hold.leaving_told, true)) {
        polled.leaving.push_back(partition);
      }
    }
    for (const Partition& partition : unheard) GiveUp(partition);
    for (auto& [partition, hold] : self().held) {
      if (!hold.leaving && !std::exchange(hold.told, true)) polled.gained.push_back(partition);
    }
    if (!unheard.empty()) core_->changed.notify_all();
  }

  // Partition after partition, beginning where the last call did not come to.
  Status Read(std::size_t messages_max, std::size_t bytes_max, Polled& polled) {
    std::vector<Partition> order;
    for (const auto& [partition, hold] : self().held) order.push_back(partition);
    std::ranges::rotate(order, std::ranges::upper_bound(order, last_read_));
    std::size_t bytes = 0;
    for (const Partition& partition : order) {
      Hold& hold = *Find(partition);
      if (!hold.started || hold.paused || hold.leaving) continue;
      const PartitionLog& log = core_->logs.at(partition);
      if (hold.position < log.first_offset || hold.position > log.next_offset)
        return OutOfRange(partition, hold, log);
      for (auto message = log.From(hold.position); message != log.messages.end(); ++message) {
        bytes += message->bytes();
        const bool full = polled.messages.size() >= messages_max || bytes > bytes_max;
        if (full && !polled.messages.empty()) return Ok();
        polled.messages.push_back(*message);
        hold.position = message->offset + 1;
        last_read_ = partition;
      }
      hold.position = log.next_offset;  // behind offsets that hold no message
    }
    return Ok();
  }

  static Error OutOfRange(const Partition& partition, const Hold& hold, const PartitionLog& log) {
    return Error(ErrorKind::kCorrupt, "offset_out_of_range",
                 fmt::format("partition {} of {} is to be read from offset {} and has {} to {}", partition.number,
                             partition.topic, hold.position, log.first_offset, log.next_offset))
        .WithHint("set the position of the group");
  }

  const std::shared_ptr<Core> core_;
  Group& group_;
  const Group::MemberId id_;
  Partition last_read_;
  bool closed_ = false;
  bool interrupted_ = false;
};

MemoryTopics::MemoryTopics(Clock& clock, milliseconds session) : core_(std::make_shared<Core>(clock, session)) {}
MemoryTopics::~MemoryTopics() = default;

void MemoryTopics::MakeTopic(const std::string& topic, std::int32_t partitions) {
  const std::lock_guard lock(core_->mutex);
  core_->MakeTopic(topic, partitions);
  core_->changed.notify_all();
}

std::int32_t MemoryTopics::PartitionCount(const std::string& topic) const {
  const std::lock_guard lock(core_->mutex);
  return core_->PartitionCount(topic);
}

PartitionOffset MemoryTopics::Publish(const Partition& partition, std::string key, std::string value,
                                      Headers headers) {
  const std::lock_guard lock(core_->mutex);
  core_->MakeTopic(partition.topic, partition.number + 1);
  PartitionLog& log = core_->logs.at(partition);
  const std::int64_t offset = log.next_offset++;
  log.messages.push_back({.partition = partition,
                          .offset = offset,
                          .published_at = core_->clock.Now(),
                          .key = std::move(key),
                          .value = std::move(value),
                          .headers = std::move(headers)});
  core_->changed.notify_all();
  return {partition, offset};
}

PartitionOffset MemoryTopics::Publish(const std::string& topic, std::string key, std::string value, Headers headers) {
  const std::int32_t lane = LaneOf(LaneHash(key), std::max(PartitionCount(topic), 1));
  return Publish(Partition{topic, lane}, std::move(key), std::move(value), std::move(headers));
}

void MemoryTopics::DeleteTopic(const std::string& topic) {
  const std::lock_guard lock(core_->mutex);
  core_->EmptyTopic(topic);
  core_->TakeMissing();
  core_->changed.notify_all();
}

void MemoryTopics::RecreateTopic(const std::string& topic, std::optional<std::int32_t> partitions) {
  const std::lock_guard lock(core_->mutex);
  const std::int32_t count = partitions.value_or(core_->PartitionCount(topic));
  core_->EmptyTopic(topic);
  core_->MakeTopic(topic, count);
  core_->TakeMissing();
  core_->changed.notify_all();
}

std::string MemoryTopics::TopicId(const std::string& topic) const {
  const std::lock_guard lock(core_->mutex);
  const auto found = core_->topic_ids.find(topic);
  return found == core_->topic_ids.end() ? "" : found->second;
}

void MemoryTopics::TellTopicIds(bool tell) {
  const std::lock_guard lock(core_->mutex);
  core_->tells_topic_ids = tell;
}

void MemoryTopics::Trim(const PartitionOffset& first_kept) {
  const std::lock_guard lock(core_->mutex);
  PartitionLog& log = core_->logs.at(first_kept.partition);
  SEALANE_ASSERT(first_kept.offset <= log.next_offset, "only what is there can be trimmed");
  log.first_offset = std::max(log.first_offset, first_kept.offset);
  std::erase_if(log.messages, [&](const ReceivedMessage& message) { return message.offset < log.first_offset; });
}

void MemoryTopics::SkipTo(const PartitionOffset& next) {
  const std::lock_guard lock(core_->mutex);
  PartitionLog& log = core_->logs.at(next.partition);
  SEALANE_ASSERT(next.offset >= log.next_offset, "offsets never go back");
  log.next_offset = next.offset;
}

std::int64_t MemoryTopics::EndOffset(const Partition& partition) const {
  const std::lock_guard lock(core_->mutex);
  return core_->logs.at(partition).next_offset;
}

std::unique_ptr<Subscription> MemoryTopics::Join(const std::string& group, std::vector<std::string> topics) {
  const std::lock_guard lock(core_->mutex);
  Group& joined = core_->groups[group];
  const Group::MemberId id = core_->next_member++;
  joined.members[id].topics = {topics.begin(), topics.end()};
  joined.Deal(core_->logs);
  core_->changed.notify_all();
  return std::make_unique<Member>(core_, joined, id);
}

std::optional<std::int64_t> MemoryTopics::Committed(const std::string& group, const Partition& partition) const {
  const std::lock_guard lock(core_->mutex);
  const auto found = core_->groups.find(group);
  return found == core_->groups.end() ? std::nullopt : found->second.Committed(partition);
}

void MemoryTopics::SetCommitted(const std::string& group, const PartitionOffset& position) {
  const std::lock_guard lock(core_->mutex);
  core_->groups[group].committed[position.partition] = position.offset;
}

void MemoryTopics::ForgetCommitted(const std::string& group, const std::optional<std::string>& topic) {
  const std::lock_guard lock(core_->mutex);
  std::erase_if(core_->groups[group].committed,
                [&](const auto& entry) { return !topic || entry.first.topic == *topic; });
}

std::size_t MemoryTopics::MemberCount(const std::string& group) const {
  const std::lock_guard lock(core_->mutex);
  const auto found = core_->groups.find(group);
  return found == core_->groups.end() ? 0 : found->second.members.size();
}

std::uint64_t MemoryTopics::PollCount() const {
  const std::lock_guard lock(core_->mutex);
  return core_->polls;
}

void MemoryTopics::Rebalance(const std::string& group) {
  const std::lock_guard lock(core_->mutex);
  core_->groups[group].LeaveAll();
  core_->groups[group].Deal(core_->logs);
  core_->changed.notify_all();
}

void MemoryTopics::TakeAway(const std::string& group, const Partition& partition) {
  const std::lock_guard lock(core_->mutex);
  Group& robbed = core_->groups[group];
  for (auto& [id, member] : robbed.members) robbed.Take(id, partition);
  robbed.Deal(core_->logs);
  core_->changed.notify_all();
}

void MemoryTopics::LoseMembers(const std::string& group) {
  const std::lock_guard lock(core_->mutex);
  Group& robbed = core_->groups[group];
  for (auto& [id, member] : robbed.members) {
    for (const auto& [partition, log] : core_->logs) robbed.Take(id, partition);
  }
  robbed.Deal(core_->logs);
  core_->changed.notify_all();
}

void MemoryTopics::Redeliver(const std::string& group) {
  const std::lock_guard lock(core_->mutex);
  Group& rewound = core_->groups[group];
  for (auto& [id, member] : rewound.members) {
    for (auto& [partition, hold] : member.held) {
      hold.position = rewound.Committed(partition).value_or(core_->logs.at(partition).first_offset);
    }
  }
  core_->changed.notify_all();
}

void MemoryTopics::EndSessions(const std::string& group) {
  const std::lock_guard lock(core_->mutex);
  core_->groups[group].BuryExpired(BootTime::max());
  core_->groups[group].Deal(core_->logs);
  core_->changed.notify_all();
}

void MemoryTopics::Fail(Call call, Error error, std::size_t times) {
  const std::lock_guard lock(core_->mutex);
  core_->faults.push_back({call, std::move(error), times});
}

void MemoryTopics::ForgetFaults() {
  const std::lock_guard lock(core_->mutex);
  core_->faults.clear();
}

void MemoryTopics::HoldMessages() {
  const std::lock_guard lock(core_->mutex);
  core_->messages_held = true;
}

void MemoryTopics::LetMessages() {
  const std::lock_guard lock(core_->mutex);
  core_->messages_held = false;
  core_->changed.notify_all();
}

void MemoryTopics::HoldCommits() {
  const std::lock_guard lock(core_->mutex);
  core_->commits_held = true;
}

void MemoryTopics::LetCommits() {
  const std::lock_guard lock(core_->mutex);
  core_->commits_held = false;
  for (auto& [name, group] : core_->groups) {
    for (auto& [id, member] : group.members) core_->Remember(group, member);
  }
}

void MemoryTopics::BeginOutage(std::optional<Error> problem) {
  const std::lock_guard lock(core_->mutex);
  core_->outage = problem ? std::move(problem)
                          : Error(ErrorKind::kUnavailable, "broker_unreachable", "the broker in memory is away")
                                .WithHint("end the outage in the test");
}

void MemoryTopics::EndOutage() {
  const std::lock_guard lock(core_->mutex);
  core_->outage.reset();
  core_->changed.notify_all();
}

}  // namespace sealane
