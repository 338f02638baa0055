#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "sealane/envelope.hpp"

#include "broker/publisher.hpp"

namespace sealane::testing {

/// Publishes events to a Kafka topic all the time, as a relay would. The versions of a key grow by one; an event
/// whose delivery fails, because the topic is away, is not sent again. What the topic holds is the truth.
class TopicLoad {
 public:
  static constexpr int kKeys = 12;

  TopicLoad(std::string topic, std::uint64_t seed);
  ~TopicLoad();
  TopicLoad(const TopicLoad&) = delete;
  TopicLoad& operator=(const TopicLoad&) = delete;

  /// Returns when nothing is on its way. A load begins paused.
  void Pause();
  void Resume();
  /// Waits until so many events more are on the topic; false when that takes too long.
  bool AwaitMore(int count);
  /// Lets so many through and pauses.
  void WriteMore(int count);
  /// From now on events are about other keys, and their ids are so old. Only while paused.
  void Change(const std::string& keys, std::chrono::hours age = std::chrono::hours{0});

 private:
  void Run(std::uint64_t seed);
  Envelope NextEvent(int key);
  /// How many of these arrived.
  int Send(int count, std::uint64_t random);

  std::string topic_;
  std::string keys_ = "k";
  std::chrono::hours age_{0};
  std::map<std::string, std::int64_t> versions_;
  std::unique_ptr<Publisher> publisher_;  // empty: to be opened
  std::uint64_t token_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<bool> paused_{true};
  std::atomic<bool> busy_{false};
  std::atomic<bool> limited_{false};
  std::atomic<std::int64_t> left_{0};  ///< with a limit: events that may still be sent
  std::atomic<std::int64_t> arrived_{0};
  std::thread thread_;
};

}  // namespace sealane::testing
