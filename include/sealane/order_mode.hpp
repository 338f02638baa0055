#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sealane {

/// Which events keep their order among each other, and therefore wait for each other when one fails.
enum class OrderMode : std::uint8_t {
  kKey,     ///< events with the same key (default)
  kTenant,  ///< all events of a tenant; one relay runs the whole route
  kGlobal,  ///< all events; one relay runs the whole route
  kNone,    ///< none: only the failing event waits
};
/// `key`, `tenant`, `global`, `none`.
std::string_view ToString(OrderMode mode);
std::optional<OrderMode> ParseOrderMode(std::string_view text);

}  // namespace sealane
