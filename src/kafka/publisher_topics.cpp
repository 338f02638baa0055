// The part of PublisherCore that opens and closes topics.

#include <algorithm>
#include <deque>
#include <utility>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "kafka/message_size.hpp"
#include "kafka/publisher_core.hpp"
#include "kafka/topic_scout.hpp"

namespace sealane::kafka {
namespace {

// Topics with a lower limit than this get batches of one message instead of making everybody's batches small.
constexpr std::size_t kBatchBytesMin = 16 * 1024;
// How many messages of a topic go alone after a batch of it was refused.
constexpr std::size_t kSingleRun = 1'000;
constexpr std::chrono::milliseconds kAskPause{200};
// How often the settings of a topic are asked for in vain before it is used without them.
constexpr int kSettingsTries = 2;
constexpr int kCreationTimeoutMs = 10'000;

}  // namespace

void PublisherCore::StartAsking(Topic& topic, BootTime now) {
  if (!IsTopicName(topic.name)) {
    Close(topic, {FailureClass::kRejected, "invalid_topic"},
          fmt::format("'{}' cannot be the name of a topic", EscapeForTerminal(topic.name)));
    return;
  }
  // A topic that was forbidden must not take a crowd before it took one: those behind a message that is forbidden
  // again, and persisted because the right came in between, would have overtaken it.
  if (topic.state == Topic::State::kClosed && topic.closure.failure == FailureClass::kForbidden) {
    topic.wanted_lane = Producer::Kind::kSingle;
    topic.single_left = std::max<std::size_t>(topic.single_left, 1);
  }
  topic.state = Topic::State::kAsking;
  topic.asking_since = now;
  topic.look_again = now;
  topic.creation_asked = false;
  topic.creation_problem.clear();
  NeedsLook(topic);
  AdvanceTopics(now);
}

void PublisherCore::OnAnswer(Producer& producer, rd_kafka_event_t& event) {
  const auto id = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(rd_kafka_event_opaque(&event)));
  Topic* const topic = topics_.Find(id);
  if (topic == nullptr || topic->state != Topic::State::kAsking) return;
  topic->answer_pending = false;
  // With many topics and no broker, each answer would wait in vain; what is not asked now is asked again later.
  TopicFinding finding;
  if (!brokers_are_silent_) {
    finding = ReadTopicAnswer(producer, *topic, event, topic->unanswered < kSettingsTries);
    brokers_are_silent_ = finding.brokers_are_silent;
  }
  const BootTime now = clock_.SinceBoot();
  topic->look_again = now + kAskPause;
  if (finding.kind == TopicFinding::Kind::kNoAnswer) {
    ++topic->unanswered;
    return;
  }
  topic->unanswered = 0;
  last_progress_ = now;
  health_.OnProgress();
  switch (finding.kind) {
    case TopicFinding::Kind::kThere:
      OpenUp(*topic, finding);
      return;
    case TopicFinding::Kind::kMissing:
      if (options_.create_topics && !topic->creation_asked) return Create(producer, *topic);
      if (now - topic->asking_since < options_.missing_after) return;
      Close(*topic, {FailureClass::kTopicMissing, "unknown_topic"},
            topic->creation_problem.empty() ? fmt::format("there is no topic '{}'", topic->name)
                                            : fmt::format("there is no topic '{}', and it could not be created: {}",
                                                          topic->name, topic->creation_problem));
      return;
    case TopicFinding::Kind::kForbidden:
      Close(*topic, {FailureClass::kForbidden, "topic_forbidden"},
            fmt::format("we have no right to topic '{}'", topic->name));
      return;
    case TopicFinding::Kind::kInvalidName:
      Close(*topic, {FailureClass::kRejected, "invalid_topic"},
            fmt::format("the brokers do not take '{}' as the name of a topic", topic->name));
      return;
    case TopicFinding::Kind::kNoAnswer:
      return;
  }
}

// The topic is asked about on and on meanwhile, and closed when it is still missing after a while.
void PublisherCore::Create(Producer& producer, Topic& topic) {
  topic.creation_asked = true;
  topic.asking_since = clock_.SinceBoot();
  const Status asked =
      producer.AskNewTopic(topic.name, *options_.create_topics,
                           reinterpret_cast<void*>(static_cast<std::uintptr_t>(topic.id)), kCreationTimeoutMs);
  if (!asked) topic.creation_problem = asked.error().message();
}

void PublisherCore::OnCreated(rd_kafka_event_t& event) {
  const auto id = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(rd_kafka_event_opaque(&event)));
  Topic* const topic = topics_.Find(id);
  if (topic == nullptr) return;
  rd_kafka_resp_err_t error = rd_kafka_event_error(&event);
  std::string reason = error != RD_KAFKA_RESP_ERR_NO_ERROR ? rd_kafka_event_error_string(&event) : "";
  std::size_t count = 0;
  const rd_kafka_CreateTopics_result_t* result = rd_kafka_event_CreateTopics_result(&event);
  const rd_kafka_topic_result_t** results =
      result == nullptr ? nullptr : rd_kafka_CreateTopics_result_topics(result, &count);
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR && count == 1) {
    error = rd_kafka_topic_result_error(results[0]);
    const char* const text = rd_kafka_topic_result_error_string(results[0]);
    reason = text == nullptr ? rd_kafka_err2str(error) : text;
  }
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    LogInfo("topic created", {{"topic", topic->name}});
  } else if (error != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) {
    topic->creation_problem = EscapeForTerminal(reason);
  }
  topic->asking_since = clock_.SinceBoot();  // the brokers may need a moment to know it
}

void PublisherCore::OpenUp(Topic& topic, const TopicFinding& finding) {
  const std::size_t message_bytes_max = finding.message_bytes_max;
  topic.state = Topic::State::kOpen;
  topic.message_bytes_max = message_bytes_max;
  if (topic.warmth.partitions() != finding.partitions) topic.warmth.Reset(finding.partitions);
  const std::size_t batch_bytes = batch_bytes_ != 0 ? batch_bytes_ : configured_batch_bytes_;
  topic.always_single = message_bytes_max != 0 && message_bytes_max < std::min(batch_bytes, kBatchBytesMin);
  if (topic.always_single) {
    topic.wanted_lane = Producer::Kind::kSingle;
  } else if (message_bytes_max != 0 && message_bytes_max < batch_bytes) {
    // A batch that the topic cannot take must never be made. The size of batches is a producer's, not a topic's.
    batch_bytes_ = message_bytes_max;
    if (phase_ == Phase::kRunning) phase_ = Phase::kDraining;
  }
  // Messages that waited were measured against nothing yet.
  std::deque<HeldMessage> fitting;
  for (HeldMessage& held : topic.held) {
    const std::size_t size = WireSizeOf(held.key, held.value, held.headers);
    // Those behind one that is refused must not overtake it before its caller knows.
    if (failed_keys_.Has(topic.name, held.key)) {
      Resolve(held.slot, HeldBack());
      continue;
    }
    if (message_bytes_max == 0 || size <= message_bytes_max) {
      fitting.push_back(std::move(held));
      continue;
    }
    failed_keys_.Add(topic.name, held.key);
    Resolve(held.slot, {DeliveryStatus::kNotPersisted, FailureClass::kRejected, "message_too_large",
                        fmt::format("{} bytes, and topic '{}' takes {} (max.message.bytes)", size, topic.name,
                                    message_bytes_max)});
  }
  topic.held = std::move(fitting);
}

void PublisherCore::Close(Topic& topic, KafkaFailure failure, std::string message) {
  topic.state = Topic::State::kClosed;
  topic.look_again = clock_.SinceBoot() + options_.ask_again_after;
  topic.closure = {failure.failure, failure.code, std::move(message)};
  FailHeld(topic, {DeliveryStatus::kNotPersisted, failure.failure, failure.code, topic.closure.message});
}

void PublisherCore::GoSingle(Topic& topic) {
  topic.wanted_lane = Producer::Kind::kSingle;
  topic.single_left = kSingleRun;
}

void PublisherCore::NeedsLook(Topic& topic) {
  if (std::exchange(topic.listed, true)) return;
  look_.push_back(&topic);
}

void PublisherCore::FailHeld(Topic& topic, const Failure& failure) {
  for (const HeldMessage& held : std::exchange(topic.held, {})) Resolve(held.slot, failure);
}

void PublisherCore::AdvanceTopics(BootTime now) {
  std::vector<Topic*> still;
  for (Topic* topic : std::exchange(look_, {})) {
    if (topic->state == Topic::State::kAsking && !topic->answer_pending && now >= topic->look_again &&
        phase_ != Phase::kRetiring && batching_ != nullptr) {
      topic->answer_pending = true;
      // librdkafka begins to look for the leaders at once, not when the first message leaves.
      if (topic->lane == Producer::Kind::kBatching && topic->handle == nullptr) {
        topic->handle = batching_->OpenTopic(topic->name);
      }
      AskAboutTopic(*batching_, *topic);
    }
    if (topic->state == Topic::State::kOpen) Flush(*topic);
    topic->listed = topic->state == Topic::State::kAsking || !topic->held.empty();
    if (topic->listed) still.push_back(topic);
  }
  look_.insert(look_.end(), still.begin(), still.end());
}

}  // namespace sealane::kafka
