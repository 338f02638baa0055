#include "kafka/producer_conf.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/text.hpp"

namespace sealane::kafka {
namespace {

struct Default {
  const char* name;
  const char* value;
};

constexpr std::array kDefaults = {
    Default{"client.id", "sealane"},
    Default{"acks", "all"},
    Default{"enable.idempotence", "true"},
    // With more than one, librdkafka 2.0.2 has reported messages to a Kafka 4.1 as persisted that were not there; see
    // PartitionWarmth, which guards those who choose more.
    Default{"max.in.flight.requests.per.connection", "1"},
    Default{"compression.codec", "lz4"},
    // Batches form by themselves while requests are under way; waiting for more only costs time (p50 0.4 ms, with
    // 1 ms it is 1.9 ms at 1,000 messages/s) and brought no measurable rate.
    Default{"linger.ms", "0"},
    // On by default before librdkafka 2.10: it holds small requests back for up to 40 ms.
    Default{"socket.nagle.disable", "true"},
    // Nothing expires on its own: a message that did while a later one of its key was sent would invert the order.
    Default{"message.timeout.ms", "0"},
    // As Java producers do, so that a key lies in one partition whoever wrote it. librdkafka's own default also
    // spreads messages with an empty key.
    Default{"partitioner", "murmur2_random"},
    // A broker that is back is noticed soon; the default backs off to 10 s.
    Default{"reconnect.backoff.max.ms", "2000"},
    Default{"statistics.interval.ms", "0"},
    // The most there is: how large a message may be is for the outbox and the topic to say. Batches are bounded by
    // batch.size.
    Default{"message.max.bytes", "1000000000"},
};

struct Refusal {
  std::string_view name;
  std::string_view allowed;  // the values that do no harm, divided by '|'; none when empty
  std::string_view why;
};

constexpr std::array kRefusals = {
    Refusal{"enable.idempotence", "true|t|1", "without it a retry can double or reorder messages"},
    Refusal{"acks", "all|-1", "an event counts as published only when all in-sync replicas have it"},
    Refusal{"request.required.acks", "all|-1", "an event counts as published only when all in-sync replicas have it"},
    Refusal{"message.timeout.ms", "0",
            "a message that expires while a later one of its key is sent inverts the order"},
    Refusal{"delivery.timeout.ms", "0",
            "a message that expires while a later one of its key is sent inverts the order"},
    Refusal{"message.send.max.retries", "",
            "a message given up while a later one of its key is sent inverts the order"},
    Refusal{"retries", "", "a message given up while a later one of its key is sent inverts the order"},
    Refusal{"enable.gapless.guarantee", "", "it is decided inside, to keep the order after a refused batch"},
    Refusal{"transactional.id", "", "this publisher does not use transactions"},
    // consistent_random spreads messages whose key is empty.
    Refusal{"partitioner", "murmur2|murmur2_random|fnv1a|fnv1a_random|consistent",
            "messages of one key must go to one partition"},
    Refusal{"queuing.strategy", "fifo", "messages must leave in the order they came"},
    Refusal{"delivery.report.only.error", "false|f|0", "every message needs its report"},
    Refusal{"bootstrap.servers", "", "the brokers are named by the URL"},
    Refusal{"metadata.broker.list", "", "the brokers are named by the URL"},
    Refusal{"enabled_events", "", "it is decided inside"},
};

bool IsOneOf(std::string_view value, std::string_view choices) {
  while (!choices.empty()) {
    const std::size_t bar = choices.find('|');
    if (value == choices.substr(0, bar)) return true;
    if (bar == std::string_view::npos) break;
    choices.remove_prefix(bar + 1);
  }
  return false;
}

Status CheckHarmless(const std::string& name, const std::string& value) {
  for (const Refusal& refusal : kRefusals) {
    if (name != refusal.name || IsOneOf(value, refusal.allowed)) continue;
    return Error(
               ErrorKind::kMisconfigured, "kafka_property_refused",
               fmt::format("the Kafka property {}={} cannot be set: {}", name, EscapeForTerminal(value), refusal.why))
        .WithField(name)
        .WithHint("remove it");
  }
  return Ok();
}

std::vector<std::string> KnownProperties() {
  std::vector<std::string> names;
  const auto collect = [&](const char** entries, std::size_t count) {
    for (std::size_t i = 0; i < count; i += 2) names.emplace_back(entries[i]);
    rd_kafka_conf_dump_free(entries, count);
  };
  const Conf conf(rd_kafka_conf_new());
  const TopicConf topic_conf(rd_kafka_topic_conf_new());
  std::size_t count = 0;
  const char** entries = rd_kafka_conf_dump(conf.get(), &count);
  collect(entries, count);
  entries = rd_kafka_topic_conf_dump(topic_conf.get(), &count);
  collect(entries, count);
  return names;
}

Error UnknownProperty(std::string_view name) {
  const std::vector<std::string> known = KnownProperties();
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  const std::string_view closest = ClosestMatch(name, candidates);
  return Error(ErrorKind::kMisconfigured, "unknown_kafka_property",
               fmt::format("librdkafka {} has no property '{}'", rd_kafka_version_str(), EscapeForTerminal(name)))
      .WithField(std::string(name))
      .WithHint(closest.empty() ? std::string("look it up in librdkafka's CONFIGURATION.md")
                                : fmt::format("did you mean {}?", closest));
}

// Called from librdkafka's threads. What matters comes as an event too; this is for people who look closer.
void WriteLog(const rd_kafka_t*, int level, const char* facility, const char* text) {
  constexpr int kCritical = 2;
  if (level <= kCritical) {
    LogWarning("librdkafka says", {{"facility", facility}, {"text", text}});
  } else {
    LogDebug("librdkafka says", {{"facility", facility}, {"text", text}});
  }
}

}  // namespace

Status SetProperty(rd_kafka_conf_t& conf, std::string_view name, std::string_view value) {
  std::array<char, 512> reason{};
  const std::string name_text(name);
  switch (rd_kafka_conf_set(&conf, name_text.c_str(), std::string(value).c_str(), reason.data(), reason.size())) {
    case RD_KAFKA_CONF_OK:
      return Ok();
    case RD_KAFKA_CONF_UNKNOWN:
      return UnknownProperty(name);
    case RD_KAFKA_CONF_INVALID:
      break;
  }
  // librdkafka's reason may repeat the value.
  return Error(ErrorKind::kMisconfigured, "invalid_kafka_property",
               IsSecretProperty(name) ? fmt::format("librdkafka does not take the value of {} (not shown)", name)
                                      : fmt::format("librdkafka does not take {}={}: {}", name,
                                                    EscapeForTerminal(value), EscapeForTerminal(reason.data())))
      .WithField(name_text)
      .WithHint("librdkafka's CONFIGURATION.md lists the values it takes");
}

std::string PropertyOf(const rd_kafka_conf_t& conf, std::string_view name) {
  std::array<char, 512> value{};
  std::size_t size = value.size();
  if (rd_kafka_conf_get(&conf, std::string(name).c_str(), value.data(), &size) != RD_KAFKA_CONF_OK) return {};
  return value.data();
}

std::size_t NumberOf(const rd_kafka_conf_t& conf, std::string_view name) {
  const std::string text = PropertyOf(conf, name);
  std::size_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Result<Conf> MakeProducerConf(const KafkaOptions& options) {
  SEALANE_ASSIGN_OR_RETURN(const std::string brokers, BrokersOf(options.url));
  Conf conf(rd_kafka_conf_new());
  SEALANE_RETURN_IF_ERROR(SetProperty(*conf, "bootstrap.servers", brokers));
  for (const Default& entry : kDefaults) SEALANE_RETURN_IF_ERROR(SetProperty(*conf, entry.name, entry.value));
  // The publisher counts for itself, more strictly; librdkafka's limits only must not be smaller. Its own count of
  // kilobytes leaves keys and headers out.
  SEALANE_RETURN_IF_ERROR(SetProperty(*conf, "queue.buffering.max.messages", std::to_string(options.messages_max)));
  SEALANE_RETURN_IF_ERROR(SetProperty(*conf, "queue.buffering.max.kbytes", "2147483647"));
  for (const auto& [name, value] : options.properties) {
    SEALANE_RETURN_IF_ERROR(CheckHarmless(name, value));
    SEALANE_RETURN_IF_ERROR(SetProperty(*conf, name, value));
  }
  if (!options.password.empty()) {
    SEALANE_RETURN_IF_ERROR(SetProperty(*conf, "sasl.password", options.password.Reveal()));
  }
  rd_kafka_conf_set_log_cb(conf.get(), &WriteLog);
  rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
  return conf;
}

}  // namespace sealane::kafka
