#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sealane/result.hpp"

#include "base/log.hpp"

namespace sealane {

/// How topics that are missing are made.
struct TopicCreation {
  std::int32_t partitions = -1;                                  ///< -1: as many as the brokers choose
  std::int32_t replication = -1;                                 ///< -1: as many as the brokers choose
  std::vector<std::pair<std::string, std::string>> config = {};  ///< of the topic, for example `retention.ms`
};

/// How to reach a Kafka and how much may be under way to it.
struct KafkaOptions {
  /// `kafka://host:port[,host:port...]`; without a port 9092 is meant.
  std::string url;
  /// Properties of librdkafka, stronger than the defaults of this library. Those that would break a guarantee are
  /// refused.
  std::vector<std::pair<std::string, std::string>> properties = {};
  /// For `sasl.password`, so that it need not be among the properties.
  Secret password = {};

  /// Messages taken and not yet collected, and their bytes with what librdkafka needs around them.
  std::size_t messages_max = 100'000;
  std::size_t bytes_max = std::size_t{4} << 20U;

  /// Health is kUnreachable when messages wait and none was acknowledged for this long.
  std::chrono::milliseconds stall_after{10'000};
  /// A topic must be unknown for this long before messages for it are rejected: right after its creation some brokers
  /// do not know it yet.
  std::chrono::milliseconds missing_after{1'000};
  /// A topic that is missing or forbidden is looked at again after this time, when a message for it comes.
  std::chrono::milliseconds ask_again_after{5'000};
  /// Set: a topic that is missing is made. Otherwise messages for it come back until another program has made it.
  std::optional<TopicCreation> create_topics = {};
};

namespace kafka {

/// `host:port,host:port` of a `kafka://` URL. The error never repeats a password.
Result<std::string> BrokersOf(std::string_view url);

/// Whether the value of this property of librdkafka must not be shown.
bool IsSecretProperty(std::string_view name);

}  // namespace kafka
}  // namespace sealane
