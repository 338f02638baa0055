#include "relay/route_options.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "relay/topic_template.hpp"

namespace sealane {
namespace {

constexpr std::array<std::string_view, 4> kOrderNames = {"key", "tenant", "global", "none"};

// `*` stands for any run of characters; everything else for itself.
bool Matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool AnyMatches(const std::vector<std::string>& patterns, std::string_view text) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(),
                                         [&](const std::string& pattern) { return Matches(pattern, text); });
}

Error BadOption(std::string field, std::string message, std::string hint) {
  return Error(ErrorKind::kMisconfigured, "bad_option", std::move(message))
      .WithField(std::move(field))
      .WithHint(std::move(hint));
}

}  // namespace

std::string_view ToString(OrderMode mode) {
  return kOrderNames.at(static_cast<std::size_t>(mode));
}

std::optional<OrderMode> ParseOrderMode(std::string_view text) {
  for (std::size_t i = 0; i < kOrderNames.size(); ++i) {
    if (kOrderNames[i] == text) return static_cast<OrderMode>(i);
  }
  return std::nullopt;
}

bool RouteFilter::Passes(const EnvelopeView& event) const {
  return AnyMatches(topics, event.topic) && AnyMatches(types, event.type) && AnyMatches(tenants, event.tenant) &&
         AnyMatches(aggregate_types, event.aggregate_type);
}

void LimitMemory(RouteOptions& options, std::size_t memory_max) {
  options.memory_max = memory_max;
  options.page_bytes = std::min(options.page_bytes, std::max<std::size_t>(memory_max / 4, 1));
}

Status CheckOptions(const RouteOptions& options) {
  if (options.owner.empty()) return BadOption("owner", "a relay needs a name", "give each running relay its own");
  if (options.lease_ttl < std::chrono::milliseconds{200}) {
    return BadOption("lease", fmt::format("a lease of {} ms cannot be kept alive", options.lease_ttl.count()),
                     "use at least 200ms; 10s is the default");
  }
  if (options.poll_min.count() <= 0) {
    return BadOption("poll_min", "a relay that never rests between two looks would be busy for nothing",
                     "use at least 1us; 1ms is the default");
  }
  if (options.page_entries == 0 || options.page_bytes == 0 || options.memory_max < options.page_bytes) {
    return BadOption("memory_max", "the memory limit is below the size of one page",
                     fmt::format("use at least {} bytes", options.page_bytes));
  }
  const RetryPolicy& retry = options.failures.retry;
  if (retry.first > retry.max) {
    return BadOption("retry.max", "the first wait of its retries is longer than the longest",
                     fmt::format("set retry.max to at least {} ms", retry.first.count()));
  }
  // An event that is its own dead letter would come back for ever.
  const std::string& dead_letter_topic = options.failures.dead_letter_topic;
  if (!dead_letter_topic.empty() && dead_letter_topic == options.topic_template) {
    return BadOption("dead_letter_topic", "dead events would go to the topic they failed on",
                     "choose another dead_letter_topic");
  }
  SEALANE_RETURN_IF_ERROR(TopicTemplate::Parse(options.topic_template));
  return Ok();
}

}  // namespace sealane
