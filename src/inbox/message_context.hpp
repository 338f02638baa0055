#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "broker/subscription.hpp"

namespace sealane {

/// Where an event came from and who reads it: what a handler may want to know beside the event itself.
struct MessageContext {
  std::string topic;  ///< that the message was read from; the event may have been meant for one of another name
  std::int32_t partition = 0;
  std::int64_t offset = 0;
  std::string consumer = {};  ///< the name of the consumer

  static MessageContext Of(const ReceivedMessage& message, std::string_view consumer) {
    return {message.partition.topic, message.partition.number, message.offset, std::string(consumer)};
  }
};

}  // namespace sealane
