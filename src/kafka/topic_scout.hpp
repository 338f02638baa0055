#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kafka/producer.hpp"
#include "kafka/topic_book.hpp"

namespace sealane::kafka {

/// What the brokers say about a topic.
struct TopicFinding {
  enum class Kind : std::uint8_t { kThere, kMissing, kForbidden, kInvalidName, kNoAnswer };
  Kind kind = Kind::kNoAnswer;
  std::size_t partitions = 0;         ///< of a topic that is there
  std::size_t message_bytes_max = 0;  ///< 0 when we may not know
  bool brokers_are_silent = false;    ///< no answer because none came in time, whatever the topic
};

/// Asks for a topic's settings, which also says whether it is there; the answer comes as news of the producer, with
/// the topic's id as opaque.
void AskAboutTopic(Producer& producer, const Topic& topic);

/// Reads such an answer and, with a short wait for a broker, the metadata, which has the last word on whether the
/// topic is there: settings may not be for our eyes. With `settings_can_wait` false a topic that is there is taken
/// although nobody answered for its settings.
TopicFinding ReadTopicAnswer(Producer& producer, const Topic& topic, rd_kafka_event_t& answer,
                             bool settings_can_wait);

}  // namespace sealane::kafka
