#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "sealane/clock.hpp"

#include "serve/metrics.hpp"

namespace sealane {

/// What a client gets.
struct ProbeAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  bool allow = false;  ///< say which methods there are
};

struct ProbeFacts {
  std::span<const RelayStats> relays;
  const BuildInfo* build = nullptr;
  Timestamp now{};
  std::chrono::milliseconds beat_max{60'000};  ///< a relay that works beats at least this often
};

/// Whether this relay does or can do its part: it runs, waits for its destination or for its turn, or is paused.
bool CanWork(const RelayStats& stats);
/// Whether its loops turn. One that has said what its problem is turns; so the answer does not depend on databases
/// and brokers, which a restart would not heal.
bool IsAlive(const RelayStats& stats, Timestamp now, std::chrono::milliseconds beat_max);

/// `/livez`, `/readyz` and `/metrics`, as a pure function.
ProbeAnswer AnswerProbe(std::string_view method, std::string_view target, const ProbeFacts& facts);

}  // namespace sealane
