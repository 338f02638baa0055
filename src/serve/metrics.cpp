#include "serve/metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane {
namespace {

using Label = std::pair<std::string_view, std::string_view>;

// As much of a label's value as is shown. The cut falls between characters.
std::string Shortened(std::string_view value) {
  std::string text = IsUtf8(value) ? std::string(value) : EscapeForTerminal(value);
  if (text.size() <= kMetricLabelMax) return text;
  std::size_t end = kMetricLabelMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  text.resize(end);
  return text;
}

std::string Escaped(std::string_view value) {
  std::string out;
  for (const char c : Shortened(value)) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}
std::string Number(std::uint64_t value) {
  return fmt::format("{}", value);
}
std::string Number(std::int64_t value) {
  return fmt::format("{}", value);
}

/// Writes families one after the other; a family's lines stand together, as the format asks.
class Writer {
 public:
  void Family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP sealane_{} {}\n# TYPE sealane_{} {}\n", name, help, name, type);
  }

  void Sample(const std::vector<Label>& labels, std::string_view value, std::string_view suffix = {}) {
    text_ += fmt::format("sealane_{}{}", name_, suffix);
    char before = '{';
    for (const auto& [label, content] : labels) {
      text_ += fmt::format("{}{}=\"{}\"", before, label, Escaped(content));
      before = ',';
    }
    if (before == ',') text_ += '}';
    text_ += fmt::format(" {}\n", value);
  }

  std::string Finish() && { return std::move(text_); }

 private:
  std::string_view name_;
  std::string text_;
};

struct SimpleFamily {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  std::string (*value)(const RelayStats&);
};

double SecondsSinceEpoch(Timestamp time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// One value per store and route.
constexpr std::array<SimpleFamily, 22> kFamilies = {{
    {"pending_messages", "gauge", "Events that were committed and not yet read, estimated by sequence numbers.",
     [](const RelayStats& s) { return Number(s.pending); }},
    {"oldest_pending_age_seconds", "gauge", "Age of the oldest event that waits; 0 when none does.",
     [](const RelayStats& s) { return Number(s.oldest_pending_seconds); }},
    {"parked_messages", "gauge", "Events set aside because they, or one before them, failed.",
     [](const RelayStats& s) { return Number(s.parked); }},
    {"inflight_messages", "gauge", "Messages that were handed to the broker and have no answer yet.",
     [](const RelayStats& s) { return Number(s.inflight_messages); }},
    {"inflight_bytes", "gauge", "Memory of events that were read and are not settled.",
     [](const RelayStats& s) { return Number(s.inflight_bytes); }},
    {"publish_attempts_total", "counter", "Messages handed to the broker, repetitions included.",
     [](const RelayStats& s) { return Number(s.attempts); }},
    {"published_bytes_total", "counter", "Bytes of acknowledged messages.",
     [](const RelayStats& s) { return Number(s.published_bytes); }},
    {"filtered_messages_total", "counter", "Events that the route's filter let drop.",
     [](const RelayStats& s) { return Number(s.filtered); }},
    {"repeated_messages_total", "counter", "Messages sent again after an unknown outcome: possible duplicates.",
     [](const RelayStats& s) { return Number(s.repeated); }},
    {"late_messages_total", "counter", "Messages acknowledged after the lease was over: possible duplicates.",
     [](const RelayStats& s) { return Number(s.late); }},
    {"parked_messages_total", "counter", "Events that were set aside.",
     [](const RelayStats& s) { return Number(s.parked_total); }},
    {"dead_lettered_messages_total", "counter", "Events that were given up and wait for a person.",
     [](const RelayStats& s) { return Number(s.dead_total); }},
    {"relay_lanes", "gauge", "Lanes of the outbox.",
     [](const RelayStats& s) { return Number(static_cast<std::int64_t>(s.lanes)); }},
    {"relay_lease_held", "gauge", "Lanes that this relay holds.",
     [](const RelayStats& s) { return Number(static_cast<std::uint64_t>(s.held.size())); }},
    {"relay_live_relays", "gauge", "Relays that run this route, this one included.",
     [](const RelayStats& s) { return Number(static_cast<std::int64_t>(s.live_relays)); }},
    {"relay_heartbeat_timestamp_seconds", "gauge", "When the store last took a heartbeat.",
     [](const RelayStats& s) { return Number(SecondsSinceEpoch(s.last_beat_at)); }},
    {"relay_fenced_lanes_total", "counter", "Lanes that another relay took while they were in use.",
     [](const RelayStats& s) { return Number(s.fenced); }},
    {"relay_settles_total", "counter", "Times that progress was written.",
     [](const RelayStats& s) { return Number(s.settles); }},
    {"relay_polls_total", "counter", "Looks at the log.", [](const RelayStats& s) { return Number(s.polls); }},
    {"relay_restarts_total", "counter", "Restarts of a loop after an error.",
     [](const RelayStats& s) { return Number(s.restarts); }},
    {"paused", "gauge", "1 when an operator has paused the route.",
     [](const RelayStats& s) { return std::string(s.state == RelayState::kPaused ? "1" : "0"); }},
    {"degraded", "gauge", "1 when the relay has a problem; /readyz says which.",
     [](const RelayStats& s) { return std::string(s.problem.empty() ? "0" : "1"); }},
}};

std::vector<Label> Base(const RelayStats& stats) {
  return {{"store", stats.store}, {"route", stats.route}};
}

std::vector<Label> With(std::vector<Label> labels, std::string_view name, std::string_view value) {
  labels.emplace_back(name, value);
  return labels;
}

// At most `max` values, the largest kept, what is left over and everything up to `total` under `other`.
std::map<std::string, std::uint64_t> Bounded(const std::map<std::string, std::uint64_t>& counts, std::size_t max,
                                             std::uint64_t total) {
  std::vector<std::pair<std::string, std::uint64_t>> largest;
  std::uint64_t counted = 0;
  for (const auto& [name, count] : counts) {
    counted += count;
    if (name != "other") largest.emplace_back(name, count);
  }
  // By count, then by name, so that a tie does not flap between two scrapes.
  std::sort(largest.begin(), largest.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (largest.size() > max) largest.resize(max);
  std::map<std::string, std::uint64_t> bounded;
  std::uint64_t shown = 0;
  for (const auto& [name, count] : largest) {
    bounded[Shortened(name)] += count;
    shown += count;
  }
  const std::uint64_t rest = std::max(counted, total) - shown;
  if (rest > 0) bounded["other"] += rest;
  return bounded;
}

void WriteStates(std::span<const RelayStats> relays, Writer& out) {
  out.Family("relay_state", "gauge", "1 for the state the relay is in.");
  for (const RelayStats& stats : relays) {
    using enum RelayState;
    for (const RelayState state : {kStarting, kRunning, kHolding, kPaused, kDraining, kStopped}) {
      out.Sample(With(Base(stats), "state", ToString(state)), stats.state == state ? "1" : "0");
    }
  }
}

void WriteHistogram(std::span<const RelayStats> relays, Writer& out) {
  out.Family("commit_to_publish_seconds", "histogram", "Time from the commit to the broker's acknowledgement.");
  for (const RelayStats& stats : relays) {
    const Histogram& histogram = stats.commit_to_publish;
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i) {
      below += histogram.counts[i];
      out.Sample(With(Base(stats), "le", Number(Histogram::kBounds[i])), Number(below), "_bucket");
    }
    // The total is the last bucket, not the counter beside it: the two must agree in every scrape.
    below += histogram.counts.back();
    out.Sample(With(Base(stats), "le", "+Inf"), Number(below), "_bucket");
    out.Sample(Base(stats), Number(histogram.sum), "_sum");
    out.Sample(Base(stats), Number(below), "_count");
  }
}

}  // namespace

std::string RenderMetrics(std::span<const RelayStats> relays, const BuildInfo& build) {
  Writer out;
  out.Family("build_info", "gauge", "What is running.");
  std::vector<Label> labels;
  for (const auto& [name, version] : build) labels.emplace_back(name, version);
  out.Sample(labels, "1");

  for (const SimpleFamily& family : kFamilies) {
    out.Family(family.name, family.type, family.help);
    for (const RelayStats& stats : relays) out.Sample(Base(stats), family.value(stats));
  }
  out.Family("published_messages_total", "counter", "Acknowledged messages.");
  for (const RelayStats& stats : relays) {
    for (const auto& [topic, count] : Bounded(stats.topics, kMetricTopicsMax, stats.published)) {
      out.Sample(With(Base(stats), "topic", topic), Number(count));
    }
  }
  out.Family("publish_failures_total", "counter", "Messages that were not acknowledged, by reason.");
  for (const RelayStats& stats : relays) {
    for (const auto& [reason, count] : Bounded(stats.failures, kMetricReasonsMax, 0)) {
      out.Sample(With(Base(stats), "reason", reason), Number(count));
    }
  }
  WriteStates(relays, out);
  WriteHistogram(relays, out);
  return std::move(out).Finish();
}

}  // namespace sealane
