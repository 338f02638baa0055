#include "kafka/producer_conf.hpp"

#include <array>
#include <string>

#include "kafka/properties.hpp"

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

}  // namespace

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
    SEALANE_RETURN_IF_ERROR(CheckHarmless(kRefusals, name, value));
    SEALANE_RETURN_IF_ERROR(SetProperty(*conf, name, value));
  }
  if (!options.password.empty()) {
    SEALANE_RETURN_IF_ERROR(SetProperty(*conf, "sasl.password", options.password.Reveal()));
  }
  LogToUs(*conf);
  rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
  return conf;
}

}  // namespace sealane::kafka
