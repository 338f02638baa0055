#include "inbox/consumer_stats.hpp"

namespace sealane {

std::string_view ToString(ConsumerState state) {
  switch (state) {
    case ConsumerState::kStarting:
      return "starting";
    case ConsumerState::kRunning:
      return "running";
    case ConsumerState::kHolding:
      return "holding";
    case ConsumerState::kDraining:
      return "draining";
    case ConsumerState::kStopped:
      return "stopped";
  }
  return "?";
}

void CountFailure(ConsumerStats& stats, const std::string& code) {
  constexpr std::size_t kCodesMax = 50;
  const bool fits = stats.failures.size() < kCodesMax || stats.failures.contains(code);
  ++stats.failures[fits ? code : "other"];
}

}  // namespace sealane
