#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "broker/subscription.hpp"

namespace sealane {

/// Topics in memory that tests and the simulator publish to, and subscriptions that keep the contract of the port and
/// fail as scripted.
///
/// There are no threads inside: partitions change hands when somebody joins, leaves, releases, polls or calls a
/// control here, always in the same way. A member that was destroyed without Close() keeps its partitions for the
/// session, measured on the clock; one that merely does not poll keeps them until LoseMember(). All members are safe
/// to call from any thread.
class MemoryTopics {
 public:
  enum class Call : std::uint8_t {
    kPoll,
    kInspect,
    kMessagesAt,
    kOffsetAt,
    kStart,
    kRelease,
    kCommit,
    kPause,
    kResume,
    kClose
  };
  static constexpr std::size_t kAlways = std::numeric_limits<std::size_t>::max();

  explicit MemoryTopics(Clock& clock = SystemClock::Instance(),
                        std::chrono::milliseconds session = std::chrono::seconds{10});
  ~MemoryTopics();

  /// Makes a topic, or gives it more partitions. It never gets fewer.
  void MakeTopic(const std::string& topic, std::int32_t partitions);
  std::int32_t PartitionCount(const std::string& topic) const;
  /// Where the message lies now. The topic and the partition are made when they are not there.
  PartitionOffset Publish(const Partition& partition, std::string key, std::string value, Headers headers = {});
  /// The same, in the partition of the key. A topic that is not there is made with one partition.
  PartitionOffset Publish(const std::string& topic, std::string key, std::string value, Headers headers = {});
  /// Deletes a topic with its messages, and what all groups have committed of it. Its readers lose their partitions.
  void DeleteTopic(const std::string& topic);
  /// Deletes a topic and makes it again at once, empty, under another id, with as many partitions as before unless
  /// told. Who reads one of its partitions keeps it and is not told, as in Kafka when it is quick; Rebalance() or
  /// LoseMembers() tells it.
  void RecreateTopic(const std::string& topic, std::optional<std::int32_t> partitions = std::nullopt);
  /// Another one whenever the topic is made again; empty when there is none. Subscriptions tell it unless told not
  /// to.
  std::string TopicId(const std::string& topic) const;
  void TellTopicIds(bool tell);
  /// Forgets what is before this offset, as retention does.
  void Trim(const PartitionOffset& first_kept);
  /// Lets offsets jump, as compaction and transactions do: the next message gets this one.
  void SkipTo(const PartitionOffset& next);

  /// The offset that the next message gets.
  std::int64_t EndOffset(const Partition& partition) const;

  /// A member of a group. It may outlive the other members, not the topics.
  std::unique_ptr<Subscription> Join(const std::string& group, std::vector<std::string> topics);

  /// Where the group stands; empty when it has never committed.
  std::optional<std::int64_t> Committed(const std::string& group, const Partition& partition) const;
  /// Sets it, as an operator would. Those who read the partition now do not notice.
  void SetCommitted(const std::string& group, const PartitionOffset& position);
  /// Forgets what the group has committed, of one topic or of all, as expiry does.
  void ForgetCommitted(const std::string& group, const std::optional<std::string>& topic = std::nullopt);
  /// How many members the group has, the silent ones among them.
  std::size_t MemberCount(const std::string& group) const;
  /// How often members polled. Who has seen two polls begin knows that a member has looked at what the first brought.
  std::uint64_t PollCount() const;

  /// Everything leaves, and is handed out again when all of it was released. What Kafka does whenever a member comes
  /// or goes; by itself a group here moves only what must move.
  void Rebalance(const std::string& group);
  /// Takes a partition from whoever has it, without asking, and hands it out again.
  void TakeAway(const std::string& group, const Partition& partition);
  /// Takes everything from all members, who get it again: what happens to a group that slept through its session.
  void LoseMembers(const std::string& group);
  /// Lets everything that is not committed come again, without a change of hands.
  void Redeliver(const std::string& group);
  /// Ends the sessions of members that were destroyed without Close().
  void EndSessions(const std::string& group);

  /// Fails the next `times` calls of a kind, of any member. Nothing else happens in them.
  void Fail(Call call, Error error, std::size_t times = 1);
  void ForgetFaults();
  /// No messages come, and commits that are not waited for are not remembered yet, until Let...(). A member that is
  /// destroyed takes its held commits along.
  void HoldMessages();
  void LetMessages();
  void HoldCommits();
  void LetCommits();
  /// The broker is away: polls bring nothing, health() shows it, commits are held, and calls that wait for an answer
  /// fail.
  void BeginOutage(std::optional<Error> problem = std::nullopt);
  void EndOutage();

 private:
  class Core;
  class Member;
  const std::shared_ptr<Core> core_;
};

}  // namespace sealane
