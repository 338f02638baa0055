#include "outbox/outbox_store.hpp"

#include <array>

#include "sealane/assert.hpp"

namespace sealane {
namespace {
constexpr std::array<std::string_view, 6> kStateNames = {"PENDING", "PUBLISHING", "PUBLISHED",
                                                         "FAILED",  "DEAD",       "DISCARDED"};
}  // namespace

std::string_view ToString(DeliveryState state) {
  return kStateNames.at(static_cast<std::size_t>(state));
}

std::optional<DeliveryState> ParseDeliveryState(std::string_view text) {
  for (std::size_t i = 0; i < kStateNames.size(); ++i) {
    if (kStateNames[i] == text) return static_cast<DeliveryState>(i);
  }
  return std::nullopt;
}

}  // namespace sealane
