#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/publisher.hpp"

namespace sealane::kafka {

/// The size of the message as a batch of its own in Kafka's format, uncompressed: what `max.message.bytes` bounds.
/// Never more than HeldSize().
std::size_t WireSizeOf(const OutgoingMessage& message);
std::size_t WireSizeOf(std::string_view key, std::string_view value,
                       const std::vector<std::pair<std::string, std::string>>& headers);

}  // namespace sealane::kafka
