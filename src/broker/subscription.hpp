#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/event.hpp"
#include "sealane/result.hpp"

namespace sealane {

/// One partition of a topic: the unit that a group hands to one of its members.
struct Partition {
  std::string topic;
  std::int32_t number = 0;
  friend auto operator<=>(const Partition&, const Partition&) = default;
};

/// A place in a partition. As a position of a group: the first offset that is not done.
struct PartitionOffset {
  Partition partition;
  std::int64_t offset = 0;
  friend bool operator==(const PartitionOffset&, const PartitionOffset&) = default;
};

/// A message as it came from a broker, owned.
struct ReceivedMessage {
  Partition partition;
  std::int64_t offset = 0;
  Timestamp published_at{};  ///< by the broker or its client; 1970 when the broker does not know
  std::string key;
  std::string value;
  Headers headers;

  /// Of memory, roughly.
  std::size_t bytes() const {
    std::size_t sum = sizeof(ReceivedMessage) + partition.topic.size() + key.size() + value.size();
    for (const Header& header : headers) sum += sizeof(Header) + header.name.size() + header.value.size();
    return sum;
  }
};

/// Where to begin to read a partition that was gained.
struct PartitionStart {
  Partition partition;
  std::optional<std::int64_t> offset = {};  ///< empty: where the group stands; a new group at the oldest message
};

/// A partition as it is at the broker right now.
struct PartitionFacts {
  Partition partition;
  /// Another one after the topic was deleted and made again, or the broker itself was replaced. Empty: the broker
  /// does not tell; then a message tells (MessagesAt).
  std::string topic_id = {};
  std::int64_t oldest = 0;  ///< the offset of the oldest message that is still there; the end if none is
  std::int64_t end = 0;     ///< the offset that the next message will get
  std::optional<std::int64_t> group = {};  ///< where the group stands; empty: never committed, or forgotten
};

/// What one Poll() brought, to be looked at in this order.
struct Polled {
  /// Taken away already, without asking: what is under way for these cannot be committed any more.
  std::vector<Partition> lost = {};
  /// To be handed over: finish or drop what is under way, commit, then Release() them. Others wait for it.
  std::vector<Partition> leaving = {};
  /// New ones: nothing comes of them before Start().
  std::vector<Partition> gained = {};
  /// In the order of their offsets per partition, only of started partitions that were not taken away since. Offsets
  /// grow, but not always by one.
  std::vector<ReceivedMessage> messages = {};

  bool empty() const { return lost.empty() && leaving.empty() && gained.empty() && messages.empty(); }
};

/// Port: the messages of some topics as one member of a group reads them.
///
/// Every partition belongs to one living member at a time, as far as the broker can know; one that slept through its
/// session learns of it with the next Poll(). What a member has committed is where its successor begins, so that
/// whatever was read and not committed comes again.
///
/// A broker that is away is not an error: Poll() brings nothing, health() says why, and it goes on by itself. Poll()
/// must be called all the time, also while everything is paused: that is what keeps the membership alive.
///
/// One thread calls everything but Interrupt() and health(), which may be called from any.
class Subscription {
 public:
  struct Health {
    bool reachable = true;
    std::optional<Error> problem = {};  ///< the last one, unless reachable
  };

  virtual ~Subscription() = default;

  /// Waits at most `wait` for something to come. Brings at most so many messages and bytes, but always one if there
  /// is one. Errors are those that waiting does not heal: kMisconfigured (login refused, not authorised, unknown
  /// topic that nobody makes), kFenced (`member_fenced`: another process uses the same member name), kCorrupt
  /// (`offset_out_of_range`: what the group has not read yet is gone; never skipped silently).
  virtual Result<Polled> Poll(std::size_t messages_max, std::size_t bytes_max, std::chrono::milliseconds wait) = 0;

  /// Asks the broker about partitions of this member, started or not; one entry each, in the same order. Waits for
  /// the broker, for seconds at most. kUnavailable when it does not answer, or a topic is not there.
  virtual Result<std::vector<PartitionFacts>> Inspect(std::span<const Partition> partitions) = 0;
  /// Reads the message at exactly each of these places, without disturbing what Poll() brings; one entry each, empty
  /// where there is none (any more). At most one place per partition. Waits like Inspect().
  virtual Result<std::vector<std::optional<ReceivedMessage>>> MessagesAt(std::span<const PartitionOffset> places) = 0;
  /// The offset of the first message published at that time or later; the end when there is none. Waits like
  /// Inspect().
  virtual Result<std::int64_t> OffsetAt(const Partition& partition, Timestamp time) = 0;

  /// Begins to read partitions that were gained. One that is gone again meanwhile is passed over. One that was
  /// started before begins again at the given place: nothing that was read before the call comes after it.
  virtual Status Start(std::span<const PartitionStart> partitions) = 0;
  /// Gives partitions of Polled::leaving up.
  virtual Status Release(std::span<const Partition> partitions) = 0;

  /// Remembers for the group how far it is. With `wait` it is remembered when this returns; without, soon. Partitions
  /// that this member does not have any more, and a group that is just being rebalanced, are not errors: the
  /// successor reads again what was not remembered.
  virtual Status Commit(std::span<const PartitionOffset> positions, bool wait) = 0;

  /// No messages of these come until Resume(). Costly in some brokers: for seconds, not per message.
  virtual Status Pause(std::span<const Partition> partitions) = 0;
  virtual Status Resume(std::span<const Partition> partitions) = 0;

  /// The offset that the next message of a partition will get, as far as known without asking; empty when unknown.
  /// Of a started partition it was learnt after the start: what was known before another member had it does not
  /// count.
  virtual std::optional<std::int64_t> EndOffset(const Partition& partition) const = 0;
  /// The offset behind everything that this member has been given of a started partition. Offsets that hold no
  /// message (markers of transactions, gaps of compaction) count as given as soon as it is known that there is none,
  /// so a position that is not below the end means that everything was read. Empty until it is known where reading
  /// begins, and for partitions that are not this member's.
  virtual std::optional<std::int64_t> Position(const Partition& partition) const = 0;

  /// Leaves the group. Nothing but the destructor may be called afterwards. Destroying without it is what a crash
  /// looks like: the others wait for the session to end.
  virtual Status Close() = 0;

  /// Lets a Poll() that waits, or the next one, return at once.
  virtual void Interrupt() = 0;
  virtual Health health() const = 0;
};

}  // namespace sealane
