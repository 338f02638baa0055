#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/result.hpp"

#include "kafka/handles.hpp"
#include "kafka/partition_list.hpp"

namespace sealane::kafka {

/// One librdkafka consumer, in a group unless it has no topics. What a rebalance brings is told to a listener, who
/// answers it when it likes: an assignment with Assign(), a revocation with Unassign(); until then the group waits.
///
/// Used by one thread, but for Wake(). Destroying it without Close() does not leave the group.
class Consumer {
 public:
  /// Called from within Poll() and Close().
  class Listener {
   public:
    virtual void OnAssigned(std::vector<Partition> partitions) = 0;
    /// Of everything. `lost`: it is somebody else's already.
    virtual void OnRevoked(bool lost) = 0;
    virtual void OnBrokerError(rd_kafka_resp_err_t error, std::string_view text) = 0;

   protected:
    ~Listener() = default;
  };

  /// Subscribes. Without topics it joins no group and reads only what Assign() names. The listener must outlive the
  /// consumer.
  static Result<std::unique_ptr<Consumer>> Make(Conf conf, std::span<const std::string> topics, Listener& listener);
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  /// A message or a remark, or null. Returns early after the listener was told of a rebalance.
  MessageHandle Poll(std::chrono::milliseconds wait);
  /// Lets a Poll() that waits, or the next one, return.
  void Wake() { rd_kafka_queue_yield(news_.get()); }

  /// Reads exactly these, from their offsets on.
  rd_kafka_resp_err_t Assign(const PartitionList& partitions) { return Replace(partitions.get()); }
  rd_kafka_resp_err_t Unassign() { return Replace(nullptr); }
  /// Asks where the group stands and sets the offsets; RD_KAFKA_OFFSET_INVALID where it never was.
  rd_kafka_resp_err_t Committed(const PartitionList& partitions, std::chrono::milliseconds wait);

  /// Takes the offsets for times (milliseconds since 1970, or RD_KAFKA_OFFSET_BEGINNING or RD_KAFKA_OFFSET_END) and
  /// sets the offset of the first message of that time or later; below 0 when there is none. Each entry has an error.
  rd_kafka_resp_err_t OffsetsForTimes(const PartitionList& partitions, std::chrono::milliseconds wait);

  /// The answer comes as NextCommitted().
  rd_kafka_resp_err_t Commit(const PartitionList& positions);
  Event NextCommitted() { return Event(rd_kafka_queue_poll(committed_.get(), 0)); }
  /// Waits for the answer; null when none came in time.
  Event CommitAndWait(const PartitionList& positions, std::chrono::milliseconds wait);

  void Pause(const PartitionList& partitions) { rd_kafka_pause_partitions(handle_, partitions.get()); }
  /// Only what was paused: before librdkafka 2.4 others are rewound.
  void Resume(const PartitionList& partitions) { rd_kafka_resume_partitions(handle_, partitions.get()); }

  std::optional<std::int64_t> EndOffset(const Partition& partition) const;
  /// Whether a broker answers within that time.
  bool Probe(std::chrono::milliseconds wait);
  /// Whether a broker answers within that time that the topic is there.
  bool HasTopic(const std::string& topic, std::chrono::milliseconds wait);
  /// The error behind RD_KAFKA_RESP_ERR__FATAL.
  rd_kafka_resp_err_t FatalError() const;

  rd_kafka_t* handle() const { return handle_; }

  /// Leaves the group, unless the membership is static. False when that did not end in time.
  bool Close(std::chrono::milliseconds wait);

 private:
  explicit Consumer(rd_kafka_t* handle);
  rd_kafka_resp_err_t Replace(const rd_kafka_topic_partition_list_t* partitions);
  void AwaitStops();
  static void OnRebalance(rd_kafka_t* handle, rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t* partitions,
                          void* opaque);
  static void OnError(rd_kafka_t* handle, int error, const char* text, void* opaque);

  rd_kafka_t* const handle_;
  Queue news_;
  Queue committed_;
  bool was_assigned_ = false;
  bool was_closed_ = false;
};

}  // namespace sealane::kafka
