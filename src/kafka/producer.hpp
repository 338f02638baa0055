#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sealane/result.hpp"

#include "core/wire_encoder.hpp"
#include "kafka/handles.hpp"
#include "kafka/kafka_options.hpp"

namespace sealane::kafka {

/// One librdkafka producer: the way in, and the queue of its news.
///
/// Used by one thread. Destroying it drops what is under way and ends within seconds, whatever the network does.
class Producer {
 public:
  enum class Kind : std::uint8_t {
    /// The fast one. When a broker refuses a batch it stops by itself, so that nothing overtakes the refused
    /// messages.
    kBatching,
    /// Each message is a batch of its own, one request at a time, and a refused one is simply left out.
    kSingle,
  };

  /// `wake` is an eventfd that is written when news arrive; it must outlive the producer. `batch_bytes` bounds a
  /// batch of several messages; 0 leaves the configured bound.
  static Result<std::unique_ptr<Producer>> Make(const rd_kafka_conf_t& base, Kind kind, std::size_t batch_bytes,
                                                int wake);
  ~Producer();
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  TopicHandle OpenTopic(std::string_view name);
  /// Copies the message. A report with this opaque follows unless an error is returned.
  rd_kafka_resp_err_t Produce(rd_kafka_topic_t& topic, std::string_view key, std::string_view value,
                              std::span<const HeaderView> headers, void* opaque);
  /// The next news, or null; never waits.
  Event Next() { return Event(rd_kafka_queue_poll(queue_.get(), 0)); }
  /// Asks for the settings of a topic; the answer comes as news with this opaque.
  void AskTopicConfig(std::string_view topic, void* opaque, int timeout_ms);
  /// Asks for a new topic; the answer comes as news with this opaque. An error when it cannot even be asked for.
  Status AskNewTopic(const std::string& topic, const TopicCreation& creation, void* opaque, int timeout_ms);
  /// Makes a report of every message that is not yet sent or, if asked for, not yet answered.
  void GiveUp(bool also_in_flight);

  rd_kafka_t* handle() const { return handle_; }

 private:
  Producer(rd_kafka_t* handle, int wake);

  rd_kafka_t* const handle_;
  Queue queue_;
};

}  // namespace sealane::kafka
