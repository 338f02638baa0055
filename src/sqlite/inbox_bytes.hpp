#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/event.hpp"
#include "sealane/result.hpp"

namespace sealane::sqlite {

/// The headers of a message exactly as they came, whatever bytes they are: see sealane_inbox_parked.
std::string HeadersToBytes(const Headers& headers);
/// kCorrupt (`store_corrupt`) for anything that HeadersToBytes() did not write.
Result<Headers> HeadersFromBytes(std::string_view bytes);

/// 16 bytes each: see sealane_inbox_recent.
std::string IdsToBytes(std::span<const EventId> ids);
/// What is left over at the end is no id.
std::vector<EventId> IdsFromBytes(std::string_view bytes);

}  // namespace sealane::sqlite
