#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sealane {

/// How a consumer knows that it has seen an event.
enum class InboxMode : std::uint8_t {
  kRecord,   ///< a receipt per event, remembered for the retention (default)
  kOffsets,  ///< the position in each partition, and the ids of the newest events; no row per event
};
/// `record`, `offsets`.
std::string_view ToString(InboxMode mode);
std::optional<InboxMode> ParseInboxMode(std::string_view text);

/// What happens when an earlier version of an aggregate has not come within the gap timeout.
enum class GapPolicy : std::uint8_t {
  kHold,    ///< the event is dead: a person decides, its key waits (default)
  kAccept,  ///< it is applied without the missing ones, which are stale if they ever come
};
/// `hold`, `accept`.
std::string_view ToString(GapPolicy policy);
std::optional<GapPolicy> ParseGapPolicy(std::string_view text);

}  // namespace sealane
