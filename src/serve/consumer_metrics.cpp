#include <array>
#include <string>

#include "serve/metric_writer.hpp"
#include "serve/metrics.hpp"

namespace sealane {
namespace {

struct ConsumerFamily {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  std::string (*value)(const ConsumerStats&);
};

std::int64_t TotalLag(const ConsumerStats& stats) {
  std::int64_t sum = 0;
  for (const PartitionLag& partition : stats.partitions) sum += partition.lag;
  // What is stopped waits as well.
  for (const StoppedPartition& partition : stats.stopped) sum += partition.messages;
  return sum;
}

constexpr std::array<ConsumerFamily, 26> kFamilies = {{
    {"inbox_received_messages_total", "counter", "Messages that came from the broker, repetitions included.",
     [](const ConsumerStats& s) { return MetricNumber(s.received); }},
    {"inbox_effects_total", "counter", "Events whose effect was committed.",
     [](const ConsumerStats& s) { return MetricNumber(s.effects); }},
    {"inbox_ignored_total", "counter", "Events that the handler had no use for.",
     [](const ConsumerStats& s) { return MetricNumber(s.ignored); }},
    {"inbox_duplicates_total", "counter", "Messages whose event was known already.",
     [](const ConsumerStats& s) { return MetricNumber(s.duplicates); }},
    {"inbox_stale_total", "counter", "Events with a version that was passed already.",
     [](const ConsumerStats& s) { return MetricNumber(s.stale); }},
    {"inbox_too_old_total", "counter", "Events older than the receipts that are kept: skipped, not applied.",
     [](const ConsumerStats& s) { return MetricNumber(s.too_old); }},
    {"inbox_gaps_total", "counter", "Events that had to wait for an earlier version.",
     [](const ConsumerStats& s) { return MetricNumber(s.gaps_total); }},
    {"inbox_hash_mismatches_total", "counter", "Messages with a known event id and another payload.",
     [](const ConsumerStats& s) { return MetricNumber(s.hash_mismatches); }},
    {"inbox_parked_messages", "gauge", "Events set aside because they, or one before them, failed.",
     [](const ConsumerStats& s) { return MetricNumber(s.parked); }},
    {"inbox_dead_messages", "gauge", "Events that wait for a person.",
     [](const ConsumerStats& s) { return MetricNumber(s.dead); }},
    {"inbox_open_gaps", "gauge", "Events that wait for an earlier version.",
     [](const ConsumerStats& s) { return MetricNumber(s.gaps); }},
    {"inbox_parked_messages_total", "counter", "Events that were set aside.",
     [](const ConsumerStats& s) { return MetricNumber(s.parked_total); }},
    {"inbox_dead_messages_total", "counter", "Events that were given up and wait for a person.",
     [](const ConsumerStats& s) { return MetricNumber(s.dead_total); }},
    {"inbox_retries_total", "counter", "Attempts at events that were set aside.",
     [](const ConsumerStats& s) { return MetricNumber(s.retries); }},
    {"inbox_transactions_total", "counter", "Transactions that were committed.",
     [](const ConsumerStats& s) { return MetricNumber(s.batches); }},
    {"inbox_rollbacks_total", "counter", "Transactions that were not.",
     [](const ConsumerStats& s) { return MetricNumber(s.rollbacks); }},
    {"inbox_lag_messages", "gauge", "Messages of this member's partitions that are not done.",
     [](const ConsumerStats& s) { return MetricNumber(TotalLag(s)); }},
    {"inbox_inflight_messages", "gauge", "Messages that were read and are not done.",
     [](const ConsumerStats& s) { return MetricNumber(s.inflight_messages); }},
    {"inbox_inflight_bytes", "gauge", "Memory of messages that were read and are not done.",
     [](const ConsumerStats& s) { return MetricNumber(s.inflight_bytes); }},
    {"inbox_partitions", "gauge", "Partitions that this member has.",
     [](const ConsumerStats& s) { return MetricNumber(static_cast<std::uint64_t>(s.partitions.size())); }},
    {"inbox_stopped_partitions", "gauge", "Partitions that are not read until an operator decides.",
     [](const ConsumerStats& s) { return MetricNumber(static_cast<std::uint64_t>(s.stopped.size())); }},
    {"inbox_reread_partitions_total", "counter", "Partitions read again because the store was not where it was left.",
     [](const ConsumerStats& s) { return MetricNumber(s.reread); }},
    {"inbox_circuit_open", "gauge", "1 while the circuit breaker is open: no event is applied but for probes.",
     [](const ConsumerStats& s) { return std::string(s.hold_code == "circuit_open" ? "1" : "0"); }},
    {"inbox_parked_limit_reached", "gauge", "1 while events that would be parked wait, because too many are.",
     [](const ConsumerStats& s) { return std::string(s.hold_code == "parked_limit" ? "1" : "0"); }},
    {"inbox_paused", "gauge", "1 while an operator has paused the consumer.",
     [](const ConsumerStats& s) { return std::string(s.hold_code == "consumer_paused" ? "1" : "0"); }},
    {"inbox_degraded", "gauge", "1 when the consumer has a problem; /readyz says which.",
     [](const ConsumerStats& s) { return std::string(s.problem.empty() ? "0" : "1"); }},
}};

}  // namespace

void WriteConsumerMetrics(std::span<const ConsumerStats> consumers, MetricWriter& out) {
  const auto base = [](const ConsumerStats& stats) { return MetricLabels{{"consumer", stats.consumer}}; };
  for (const ConsumerFamily& family : kFamilies) {
    out.Family(family.name, family.type, family.help);
    for (const ConsumerStats& stats : consumers) out.Sample(base(stats), family.value(stats));
  }
  out.Family("inbox_failures_total", "counter", "What went wrong, by code.");
  for (const ConsumerStats& stats : consumers) {
    for (const auto& [code, count] : BoundedSeries(stats.failures, kMetricReasonsMax, 0)) {
      out.Sample(With(base(stats), "reason", code), MetricNumber(count));
    }
  }
  out.Family("inbox_handler_seconds", "histogram", "Time in the handler.");
  for (const ConsumerStats& stats : consumers) out.Distribution(base(stats), stats.handler);
  out.Family("inbox_commit_to_effect_seconds", "histogram", "Time from the event to the commit of its effect.");
  for (const ConsumerStats& stats : consumers) out.Distribution(base(stats), stats.commit_to_effect);
}

}  // namespace sealane
