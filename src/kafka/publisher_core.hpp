#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "broker/held_message.hpp"
#include "broker/publisher.hpp"
#include "broker/wake_up.hpp"
#include "kafka/handles.hpp"
#include "kafka/health_board.hpp"
#include "kafka/kafka_errors.hpp"
#include "kafka/kafka_options.hpp"
#include "kafka/message_slots.hpp"
#include "kafka/partitioner.hpp"
#include "kafka/producer.hpp"
#include "kafka/topic_book.hpp"
#include "kafka/topic_scout.hpp"

namespace sealane::kafka {

/// The Publisher of OpenKafkaPublisher().
///
/// A message goes straight to librdkafka when its topic is open; otherwise it is held in its topic's list. Topics go
/// through the batching producer. One that had a batch refused, or whose rights were taken away, goes through the
/// single producer for a while, where a refusal concerns one message and stops nobody.
class PublisherCore final : public Publisher {
 public:
  static Result<std::unique_ptr<Publisher>> Open(const KafkaOptions& options, Clock& clock);
  ~PublisherCore() override;

  Submitted Submit(const OutgoingMessage& message) override;
  void Collect(std::vector<Delivery>& out, std::chrono::milliseconds wait) override;
  void Abandon() override;
  void Interrupt() override;
  PublisherHealth health() const override { return health_.Read(); }

 private:
  enum class Phase : std::uint8_t {
    kRunning,
    kDraining,  // waits until nothing is in flight, to go on with smaller batches
    kRetiring,  // everything under way comes back, then a new producer takes over
  };
  enum class Sent : std::uint8_t { kYes, kNotNow, kFailed };
  struct Failure {
    DeliveryStatus status;
    FailureClass failure;
    std::string_view code;
    std::string message;
  };

  /// Of a message behind one that was refused.
  static Failure HeldBack();

  PublisherCore(const KafkaOptions& options, Clock& clock, Conf conf, WakeUp wake);

  // Ways of a message.
  bool IsFull(std::size_t bytes) const;
  bool MayLeave(Topic& topic);
  /// The partition of this key, as librdkafka will choose it.
  std::size_t PartitionOf(const Topic& topic, std::string_view key) const;
  void Hold(Topic& topic, const OutgoingMessage& message, std::size_t bytes);
  Sent Send(Topic& topic, std::uint32_t slot, std::string_view key, std::string_view value,
            std::span<const HeaderView> headers);
  void Flush(Topic& topic);
  Sent SendHeld(Topic& topic, const HeldMessage& held);
  Failure RetireFailure() const;
  /// What is held behind a message of the same key that failed goes back to the caller.
  void HoldBackFollowers();
  void Resolve(std::uint32_t slot, Failure failure);
  void Refuse(std::uint64_t token, Failure failure);

  // News of the producers.
  void Pump(Producer* producer);
  void OnReports(rd_kafka_event_t& event);
  void OnPersisted(Topic& topic, std::uint32_t slot);
  Failure JudgeReport(Topic& topic, const rd_kafka_message_t& message, bool alone);
  void OnError(Producer& producer, rd_kafka_event_t& event);

  // Topics.
  void StartAsking(Topic& topic, BootTime now);
  void OnAnswer(Producer& producer, rd_kafka_event_t& event);
  void OpenUp(Topic& topic, const TopicFinding& finding);
  void Create(Producer& producer, Topic& topic);
  void OnCreated(rd_kafka_event_t& event);
  void Close(Topic& topic, KafkaFailure failure, std::string message);
  void GoSingle(Topic& topic);
  void NeedsLook(Topic& topic);
  void FailHeld(Topic& topic, const Failure& failure);

  // What is due.
  void Advance();
  void AdvanceTopics(BootTime now);
  void AdvanceRetiring(BootTime now);
  void BeginRetiring(std::string_view code, std::string reason, bool give_up_in_flight);
  void ReplaceProducers();
  /// When Advance() has something to do at the latest, apart from news.
  std::chrono::milliseconds LookIn() const;
  Producer* ProducerOf(const Topic& topic);

  const KafkaOptions options_;
  Clock& clock_;
  const Conf conf_;
  const std::size_t configured_batch_bytes_;
  const Partitioner partitioner_;
  WakeUp wake_;
  std::atomic<bool> interrupted_{false};
  HealthBoard health_;

  // Everything below belongs to the thread that submits and collects. The order matters: topics are let go of before
  // the producers they are opened on.
  std::unique_ptr<Producer> batching_;
  std::unique_ptr<Producer> single_;  // made when first needed
  TopicBook topics_;
  std::vector<Topic*> look_;  // held messages or an answer to come
  MessageSlots slots_;
  std::size_t produced_ = 0;  // of the slots, those that librdkafka has
  std::vector<Delivery> ready_;
  std::vector<Delivery>* sink_ = &ready_;
  FailedKeys failed_keys_;           // their caller does not know yet; none behind them may leave
  bool brokers_are_silent_ = false;  // metadata was asked for in vain since this Collect() began

  Phase phase_ = Phase::kRunning;
  std::string retire_code_;
  std::string retire_reason_;
  BootTime retire_until_{0};
  bool gave_up_in_flight_ = false;
  bool abandoning_ = false;
  std::size_t batch_bytes_ = 0;  // 0: as configured
  std::uint64_t rebuilds_ = 0;
  BootTime last_progress_{0};
};

}  // namespace sealane::kafka
