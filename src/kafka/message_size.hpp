#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/publisher.hpp"

namespace sealane::kafka {

/// What a message costs in memory while it is under way, librdkafka's bookkeeping included. Never less than its size
/// on the wire.
std::size_t FootprintOf(const OutgoingMessage& message);

/// The size of the message as a batch of its own in Kafka's format, uncompressed: what `max.message.bytes` bounds.
std::size_t WireSizeOf(const OutgoingMessage& message);
std::size_t WireSizeOf(std::string_view key, std::string_view value,
                       const std::vector<std::pair<std::string, std::string>>& headers);

}  // namespace sealane::kafka
