#include "broker/delivery.hpp"

#include <array>

namespace sealane {
namespace {

constexpr std::array<std::string_view, 3> kStatusNames = {"persisted", "not_persisted", "possibly_persisted"};
constexpr std::array<std::string_view, 6> kFailureNames = {"outage", "misconfigured", "forbidden",
                                                           "retry",  "rejected",      "topic_missing"};

}  // namespace

std::string_view ToString(DeliveryStatus status) {
  return kStatusNames.at(static_cast<std::size_t>(status));
}

std::string_view ToString(FailureClass failure) {
  return kFailureNames.at(static_cast<std::size_t>(failure));
}

std::optional<FailureClass> ParseFailureClass(std::string_view text) {
  for (std::size_t i = 0; i < kFailureNames.size(); ++i) {
    if (kFailureNames[i] == text) return static_cast<FailureClass>(i);
  }
  return std::nullopt;
}

}  // namespace sealane
