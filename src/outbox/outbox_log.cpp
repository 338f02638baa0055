#include "outbox/outbox_log.hpp"

#include <array>

namespace sealane {
namespace {

constexpr std::array<std::string_view, 4> kParkedNames = {"WAITING", "FAILED", "DEAD", "DISCARDED"};

}  // namespace

std::string_view ToString(ParkedState state) {
  return kParkedNames.at(static_cast<std::size_t>(state));
}

std::optional<ParkedState> ParseParkedState(std::string_view text) {
  for (std::size_t i = 0; i < kParkedNames.size(); ++i) {
    if (kParkedNames[i] == text) return static_cast<ParkedState>(i);
  }
  return std::nullopt;
}

}  // namespace sealane
