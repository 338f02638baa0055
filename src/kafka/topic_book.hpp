#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sealane/clock.hpp"

#include "broker/delivery.hpp"
#include "kafka/handles.hpp"
#include "kafka/partition_warmth.hpp"
#include "kafka/producer.hpp"

namespace sealane::kafka {

/// A message that waits for its topic, copied.
struct HeldMessage {
  std::uint32_t slot = 0;
  std::string key;
  std::string value;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// What is known of a topic and what waits for it.
struct Topic {
  enum class State : std::uint8_t {
    kAsking,  ///< the brokers are asked whether it is there and how large its messages may be
    kOpen,
    kClosed,  ///< missing or forbidden; messages are answered at once until it is looked at again
  };
  struct Closure {
    FailureClass failure = FailureClass::kRejected;
    std::string_view code;
    std::string message;
  };

  std::uint64_t id = 0;
  std::string name;
  State state = State::kAsking;
  Closure closure = {};    // when closed
  BootTime look_again{0};  // when to ask next (asking) or to start asking anew (closed)
  BootTime asking_since{0};
  bool answer_pending = false;
  int unanswered = 0;                 // questions in a row
  bool creation_asked = false;        // since it is asked about
  std::string creation_problem = {};  // why it could not be made
  std::size_t message_bytes_max = 0;  // the topic's limit; 0 when the brokers do not tell

  /// The producer its messages go through. Changes only when nothing is in flight, or order would be lost.
  Producer::Kind lane = Producer::Kind::kBatching;
  Producer::Kind wanted_lane = Producer::Kind::kBatching;
  bool always_single = false;   // batches of several would not fit
  std::size_t single_left = 0;  // messages still to go alone before batches are tried again
  TopicHandle handle;           // on the producer of `lane`

  std::size_t in_flight = 0;
  std::deque<HeldMessage> held;
  PartitionWarmth warmth;  // towards the batching producer
  bool listed = false;     // among the topics that need a look
};

/// The topics that were met, at most `topics_max`; idle ones make room.
class TopicBook {
 public:
  explicit TopicBook(std::size_t topics_max) : topics_max_(topics_max) {}

  /// Null when there are too many and none is idle. A new one is in state kAsking.
  Topic* FindOrMake(std::string_view name);
  /// By id; null when it made room for another.
  Topic* Find(std::uint64_t id);
  void ForEach(const std::function<void(Topic&)>& visit);

 private:
  bool MakeRoom();

  const std::size_t topics_max_;
  std::uint64_t last_id_ = 0;
  // Front: used last. A list, because topics are pointed at.
  std::list<Topic> topics_;
  std::unordered_map<std::string_view, std::list<Topic>::iterator> by_name_;
};

/// Whether Kafka allows a topic of this name.
bool IsTopicName(std::string_view name);

}  // namespace sealane::kafka
