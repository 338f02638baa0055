#include "inbox/consumer_options.hpp"

#include <fmt/format.h>

namespace sealane {

std::string_view ToString(GapPolicy policy) {
  return policy == GapPolicy::kHold ? "hold" : "accept";
}

std::optional<GapPolicy> ParseGapPolicy(std::string_view text) {
  if (text == "hold") return GapPolicy::kHold;
  if (text == "accept") return GapPolicy::kAccept;
  return std::nullopt;
}

Handling MakeHandling(const Handlers& handlers, bool reject_unknown_types) {
  return [&handlers, reject_unknown_types](const Envelope& event, const ReceivedMessage&, HandlerTransaction& tx) {
    const Handlers::Found found = handlers.Find(event.type, event.schema_version);
    if (found.handler != nullptr) return (*found.handler)(event, tx);
    if (found.missing == Handlers::Missing::kVersion) {
      return Decision::Reject("unknown_version", fmt::format("no handler understands version {} of {}",
                                                             event.schema_version, event.type));
    }
    if (reject_unknown_types) return Decision::Reject("unknown_type", "no handler for " + event.type);
    return Decision::Ignore("no_handler");
  };
}

Status CheckOptions(const ConsumerOptions& options) {
  const auto wrong = [](std::string field, std::string message, std::string hint) {
    return Error(ErrorKind::kMisconfigured, "invalid_consumer", std::move(message))
        .WithField(std::move(field))
        .WithHint(std::move(hint));
  };
  if (options.consumer.empty()) return wrong("consumer", "a consumer has a name", "name it, for example billing");
  if (options.workers < 1 || options.workers > 256) return wrong("workers", "workers is 1 to 256", "use 4");
  if (options.batch_max < 1 || options.batch_max > 10'000) return wrong("batch", "batch is 1 to 10000", "use 100");
  if (options.crash_budget < 1) return wrong("crash_budget", "crash_budget is at least 1", "use 3");
  if (!(options.breaker_share > 0.0 && options.breaker_share <= 1.0)) {
    return wrong("breaker_share", "breaker_share is more than 0 and at most 1", "use 0.5");
  }
  if (options.breaker_keys < 1 || options.breaker_keys > ConsumerOptions::kBreakerKeysMax) {
    return wrong("breaker_keys", fmt::format("breaker_keys is 1 to {}", ConsumerOptions::kBreakerKeysMax), "use 20");
  }
  if (options.breaker_count > ConsumerOptions::kBreakerKeysMax) {
    return wrong("breaker_count", fmt::format("breaker_count is at most {}", ConsumerOptions::kBreakerKeysMax),
                 "use 0 for no limit");
  }
  if (options.breaker_window < std::chrono::milliseconds{1'000}) {
    return wrong("breaker_window", "breaker_window is at least 1 s", "use 30s");
  }
  if (options.breaker_probe < std::chrono::milliseconds{10} || options.breaker_probe_max < options.breaker_probe) {
    return wrong("breaker_probe", "breaker_probe is at least 10 ms and at most breaker_probe_max", "use 1s and 60s");
  }
  if (options.parked_max < 0)
    return wrong("parked_max", "parked_max is not negative", "use 100000, or 0 for no limit");
  if (options.memory_max < 65'536) return wrong("memory", "memory is at least 64 KiB", "use 32MiB");
  return Ok();
}

}  // namespace sealane
