#include "commands/consumer_flags.hpp"

#include <fmt/format.h>

#include "build_info.hpp"
#include "config/units.hpp"

namespace sealane::cli {

using std::chrono::milliseconds;

Result<milliseconds> DurationOption(const std::string& flag, const std::string& text) {
  auto value = ParseDuration(text);
  if (!value) return BadUsage(fmt::format("{}: {}", flag, value.error().message()), value.error().hint(), flag);
  return *value;
}

Result<RetryPolicy> RetryOption(const std::string& text) {
  const auto preset = RetryPreset(text);
  if (!preset) {
    return BadUsage(fmt::format("--retry: `{}` is none of patient, brief, payments", text), {}, "--retry");
  }
  return *preset;
}

std::vector<OptionSpec> ConsumerFlags::Source() {
  return {
      {"--consumer", "NAME", "names the receipts and, at the broker, the group", &consumer_, true},
      {"--topic", "NAME", "what to read; may be repeated", &topics_, true},
      {"--broker", "URL", "kafka://host:port or journal:PATH", &broker_},
  };
}

std::vector<OptionSpec> ConsumerFlags::Rest() {
  return {
      {"--batch", "N", "events per transaction at most (default: 100)", &batch_},
      {"--member", "NAME", "this process among the group's, the same after a restart (default: a new one)", &member_},
      {"--type", "NAME", "only events of this type, the others are ignored; may be repeated", &types_},
      {"--tenant", "NAME", "only this tenant is allowed; may be repeated (default: all)", &tenants_},
      {"--retention", "TIME", "how long receipts are remembered (default: 30d); 0 is for ever", &retention_},
      {"--breaker", "SHARE", "hold when this share of order keys fails permanently (default: 50%); off", &breaker_},
      {"--breaker-keys", "N", "and at least so many of them (default: 20)", &breaker_keys_},
      {"--breaker-count", "N", "or so many, whatever the share (default: 0, no such limit)", &breaker_count_},
      {"--breaker-window", "TIME", "within this time (default: 30s)", &breaker_window_},
      {"--parked-max", "N", "hold instead of parking more events than this (default: 100000); 0 is no limit",
       &parked_max_},
      {"--until", "WHEN", "caught-up: end when everything that is there is done", &until_, false, "caught-up"},
      {"--listen", "HOST:PORT", "where /livez, /readyz and /metrics are served (default: off)", &listen_},
  };
}

Status ConsumerFlags::Read(CommandContext& context) {
  if (until_ && *until_ != "caught-up") {
    return BadUsage(fmt::format("--until: `{}` is not caught-up", *until_), "write --until caught-up", "--until");
  }
  if (until_) {
    context.TakeTimeoutAsLimit();
    if (const auto& timeout = context.options().timeout) {
      SEALANE_ASSIGN_OR_RETURN(limit_, DurationOption("--timeout", *timeout));
    }
  }
  if (broker_) context.AddFlag({Key::kBrokerUrl, "--broker", *broker_});
  return Ok();
}

Result<ConsumerSetup> ConsumerFlags::Plan(const Config& config) const {
  ConsumerSetup setup;
  setup.store = config.store();
  setup.broker = config.program();
  setup.topics = topics_;
  setup.group = *consumer_;
  setup.member = member_.value_or("");
  ConsumerOptions& options = setup.options;
  options.consumer = *consumer_;
  if (batch_) {
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t batch, IntegerOption("--batch", *batch_, 1, 10'000));
    options.batch_max = static_cast<std::size_t>(batch);
  }
  if (!tenants_.empty()) {
    options.tenant_allowed = [allowed = std::set<std::string, std::less<>>(tenants_.begin(), tenants_.end())](
                                 std::string_view tenant) { return allowed.contains(tenant); };
  }
  if (breaker_ && *breaker_ == "off") {
    options.breaker = false;
  } else if (breaker_) {
    std::string_view digits = *breaker_;
    if (digits.ends_with('%')) digits.remove_suffix(1);
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t percent, IntegerOption("--breaker", std::string(digits), 1, 100));
    options.breaker_share = static_cast<double>(percent) / 100.0;
  }
  constexpr auto kKeysMax = static_cast<std::int64_t>(ConsumerOptions::kBreakerKeysMax);
  if (breaker_keys_) {
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t keys, IntegerOption("--breaker-keys", *breaker_keys_, 1, kKeysMax));
    options.breaker_keys = static_cast<std::size_t>(keys);
  }
  if (breaker_count_) {
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t keys, IntegerOption("--breaker-count", *breaker_count_, 0, kKeysMax));
    options.breaker_count = static_cast<std::size_t>(keys);
  }
  if (breaker_window_) {
    SEALANE_ASSIGN_OR_RETURN(options.breaker_window, DurationOption("--breaker-window", *breaker_window_));
  }
  if (parked_max_) {
    SEALANE_ASSIGN_OR_RETURN(options.parked_max, IntegerOption("--parked-max", *parked_max_, 0, 1'000'000'000));
  }
  if (retention_) {
    SEALANE_ASSIGN_OR_RETURN(const milliseconds retention, DurationOption("--retention", *retention_));
    if (retention.count() > 0 && retention < std::chrono::hours{1}) {
      return BadUsage("--retention: less than an hour would let repeated events through",
                      "give at least 1h, or 0 to keep receipts for ever", "--retention");
    }
    options.retention.reset();
    if (retention.count() > 0) options.retention = retention;
  }
  return setup;
}

Result<std::unique_ptr<ProbeServer>> ConsumerFlags::StartProbes(CommandContext& context,
                                                                std::function<ServedStats()> stats) const {
  if (!listen_ || *listen_ == "off") return std::unique_ptr<ProbeServer>();
  SEALANE_ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(*listen_));
  return ProbeServer::Start({.address = address, .build = LibraryVersions()}, context.clock(), std::move(stats));
}

}  // namespace sealane::cli
