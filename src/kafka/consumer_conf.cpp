#include "kafka/consumer_conf.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "kafka/kafka_options.hpp"

namespace sealane::kafka {
namespace {

struct Default {
  const char* name;
  const char* value;
};

constexpr std::array kDefaults = {
    Default{"client.id", "sealane"},
    Default{"enable.auto.commit", "false"},
    Default{"enable.auto.offset.store", "false"},
    Default{"isolation.level", "read_committed"},
    // Cooperative assignment loses partitions on commits and can loop for ever in librdkafka before 2.10.
    Default{"partition.assignment.strategy", "range"},
    // A position that is out of range is an error; where a new group begins is decided when it starts.
    Default{"auto.offset.reset", "error"},
    // Where a partition ends is told, also when its last offsets hold no message.
    Default{"enable.partition.eof", "true"},
    // How long a broker holds a fetch when there is nothing; also what a fetch for a new partition waits for.
    Default{"fetch.wait.max.ms", "100"},
    Default{"fetch.error.backoff.ms", "100"},
    // On by default before librdkafka 2.10: it holds small requests back for up to 40 ms.
    Default{"socket.nagle.disable", "true"},
    // Members learn of a rebalance with a heartbeat.
    Default{"heartbeat.interval.ms", "1000"},
    // A member that is killed can block a rebalance for this long.
    Default{"max.poll.interval.ms", "60000"},
    // New topics and partitions are found within this time; the default is 5 minutes.
    Default{"topic.metadata.refresh.interval.ms", "5000"},
    // A broker that is back is noticed soon; the default backs off to 10 s.
    Default{"reconnect.backoff.max.ms", "2000"},
    Default{"statistics.interval.ms", "0"},
};

constexpr std::array kRefusals = {
    Refusal{"enable.auto.commit", "false|f|0", "only what was handled may be committed"},
    Refusal{"enable.auto.offset.store", "false|f|0", "only what was handled may be committed"},
    Refusal{"auto.commit.interval.ms", "", "only what was handled may be committed"},
    Refusal{"auto.offset.reset", "error", "messages that nobody has read must not be skipped silently"},
    Refusal{"isolation.level", "read_committed", "what was rolled back must not be handled"},
    Refusal{"partition.assignment.strategy", "range|roundrobin|range,roundrobin|roundrobin,range",
            "partitions are handed over eagerly"},
    Refusal{"enable.partition.eof", "true|t|1", "it is decided inside"},
    Refusal{"group.id", "", "the group is named by its own option"},
    Refusal{"group.instance.id", "", "the member is named by its own option"},
    Refusal{"session.timeout.ms", "", "the session has its own option"},
    Refusal{"bootstrap.servers", "", "the brokers are named by the URL"},
    Refusal{"metadata.broker.list", "", "the brokers are named by the URL"},
    Refusal{"enabled_events", "", "it is decided inside"},
};

Status CheckNames(const KafkaSubscriptionOptions& options) {
  if (options.group.empty()) {
    return Error(ErrorKind::kMisconfigured, "invalid_group", "a subscription has a group")
        .WithField("group")
        .WithHint("name the group, the same for all that share the work");
  }
  if (options.topics.empty()) {
    return Error(ErrorKind::kMisconfigured, "invalid_topics", "a subscription has topics")
        .WithField("topics")
        .WithHint("name at least one topic");
  }
  return Ok();
}

/// A broker gives a static member that is back within its session what it had, without looking at the topics it asks
/// for now. So a member with other topics is another member.
std::string InstanceId(const KafkaSubscriptionOptions& options) {
  std::vector<std::string> topics = options.topics;
  std::sort(topics.begin(), topics.end());
  std::string joined;
  for (const std::string& topic : topics) joined += topic + '\n';
  const auto digest = Sha256(joined);
  return options.member + '.' + ToHex(std::span(digest).first(4));
}

}  // namespace

Result<Conf> MakeConsumerConf(const KafkaSubscriptionOptions& options) {
  SEALANE_RETURN_IF_ERROR(CheckNames(options));
  SEALANE_ASSIGN_OR_RETURN(const std::string brokers, BrokersOf(options.url));
  Conf conf(rd_kafka_conf_new());
  SEALANE_RETURN_IF_ERROR(SetProperty(*conf, "bootstrap.servers", brokers));
  for (const Default& entry : kDefaults) SEALANE_RETURN_IF_ERROR(SetProperty(*conf, entry.name, entry.value));
  SEALANE_RETURN_IF_ERROR(SetProperty(*conf, "group.id", options.group));
  if (!options.member.empty()) SEALANE_RETURN_IF_ERROR(SetProperty(*conf, "group.instance.id", InstanceId(options)));
  SEALANE_RETURN_IF_ERROR(SetProperty(*conf, "session.timeout.ms", std::to_string(options.session.count())));
  constexpr std::size_t kKilo = 1024;
  SEALANE_RETURN_IF_ERROR(SetProperty(*conf, "queued.max.messages.kbytes",
                                      std::to_string((options.prefetch_bytes_max + kKilo - 1) / kKilo)));
  for (const auto& [name, value] : options.properties) {
    SEALANE_RETURN_IF_ERROR(CheckHarmless(kRefusals, name, value));
    SEALANE_RETURN_IF_ERROR(SetProperty(*conf, name, value));
  }
  if (!options.password.empty()) {
    SEALANE_RETURN_IF_ERROR(SetProperty(*conf, "sasl.password", options.password.Reveal()));
  }
  LogToUs(*conf);
  return conf;
}

}  // namespace sealane::kafka
