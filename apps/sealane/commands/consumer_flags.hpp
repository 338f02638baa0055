#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sealane/result.hpp"

#include "command.hpp"
#include "daemon/consumer_setup.hpp"
#include "serve/probe_server.hpp"

namespace sealane::cli {

/// The flags of every command that reads topics as a consumer. Its address goes into the options: it must not move
/// after they were asked for.
class ConsumerFlags {
 public:
  /// --consumer, --topic and --broker.
  std::vector<OptionSpec> Source();
  /// --batch, --member, --type, --tenant, --retention, those of the circuit breaker, --until and --listen.
  std::vector<OptionSpec> Rest();

  /// Before the first use of the configuration: passes --broker on, and takes --timeout as a limit with --until.
  Status Read(CommandContext& context);
  /// What the flags and the configuration say together.
  Result<ConsumerSetup> Plan(const Config& config) const;

  /// Whether events of this type are wanted.
  std::set<std::string, std::less<>> types() const { return {types_.begin(), types_.end()}; }
  bool until_caught_up() const { return until_.has_value(); }
  /// Of the whole run; only with --until.
  std::optional<std::chrono::milliseconds> limit() const { return limit_; }

  /// The server of --listen; null when it is off.
  Result<std::unique_ptr<ProbeServer>> StartProbes(CommandContext& context, std::function<ServedStats()> stats) const;

 private:
  std::optional<std::string> consumer_;
  std::vector<std::string> topics_;
  std::optional<std::string> broker_;
  std::optional<std::string> batch_;
  std::optional<std::string> member_;
  std::vector<std::string> types_;
  std::vector<std::string> tenants_;
  std::optional<std::string> retention_;
  std::optional<std::string> breaker_;
  std::optional<std::string> breaker_keys_;
  std::optional<std::string> breaker_count_;
  std::optional<std::string> breaker_window_;
  std::optional<std::string> parked_max_;
  std::optional<std::string> until_;
  std::optional<std::string> listen_;
  std::optional<std::chrono::milliseconds> limit_;
};

/// A flag's text as a duration; `bad_usage` naming the flag otherwise.
Result<std::chrono::milliseconds> DurationOption(const std::string& flag, const std::string& text);
/// --retry as a policy.
Result<RetryPolicy> RetryOption(const std::string& text);

}  // namespace sealane::cli
