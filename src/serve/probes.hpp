#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// What this process runs, as it is at one moment.
struct ServedStats {
  std::vector<RouteStats> relays = {};
  std::vector<ConsumerStats> consumers = {};
  std::vector<TaskDispatcherStats> dispatchers = {};
  std::optional<ReceiveStats> receive = {};

  ServedStats() = default;
  ServedStats(std::vector<RouteStats> some) : relays(std::move(some)) {}        // NOLINT: implicit on purpose
  ServedStats(std::vector<ConsumerStats> some) : consumers(std::move(some)) {}  // NOLINT: implicit on purpose
  ServedStats(TaskDispatcherStats one) : dispatchers{std::move(one)} {}         // NOLINT: implicit on purpose
  ServedStats(ReceiveStats some) : receive(std::move(some)) {}                  // NOLINT: implicit on purpose
};

struct ProbeFacts {
  std::span<const RouteStats> relays;
  const BuildInfo* build = nullptr;
  Timestamp now{};
  std::chrono::milliseconds beat_max{60'000};  ///< a relay that works beats at least this often
  std::span<const ConsumerStats> consumers = {};
  std::span<const TaskDispatcherStats> dispatchers = {};
  const ReceiveStats* receive = nullptr;
};

/// Whether this relay does or can do its part: it runs, waits for its destination or for its turn, or is paused.
bool CanWork(const RouteStats& stats);
/// Whether its store and its broker can be reached and take its work. One without partitions is a standby.
bool CanWork(const ConsumerStats& stats);
/// Whether its store can be reached. Targets that are away hold up their own tasks only.
bool CanWork(const TaskDispatcherStats& stats);
/// Whether deliveries can be stored right now.
bool CanWork(const ReceiveStats& stats);
/// Whether its loops turn. One that has said what its problem is turns; so the answer does not depend on databases
/// and brokers, which a restart would not heal.
bool IsAlive(const RouteStats& stats, Timestamp now, std::chrono::milliseconds beat_max);

/// `/livez`, `/readyz` and `/metrics`, as a pure function.
ProbeAnswer AnswerProbe(std::string_view method, std::string_view target, const ProbeFacts& facts);

}  // namespace sealane
