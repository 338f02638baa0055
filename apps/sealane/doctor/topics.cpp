#include "doctor/topics.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/text.hpp"
#include "core/envelope_view.hpp"
#include "daemon/route_setup.hpp"
#include "relay/topic_template.hpp"
#include "store_factory.hpp"

namespace sealane::cli {
namespace {

using enum Finding::Level;

constexpr std::size_t kNewestEvents = 200;
constexpr std::size_t kTopicsMax = 100;
// Key, headers and envelope around a payload.
constexpr std::int64_t kAroundPayload = 16'384;

void AddConfigured(const RouteOptions& options, std::set<std::string>& topics) {
  const auto add = [&](const std::string& topic) {
    if (!topic.empty() && topic.find_first_of("*$") == std::string::npos) topics.insert(topic);
  };
  add(options.failures.dead_letter_topic);
  add(options.topic_template);
  if (options.topic_template.empty()) std::for_each(options.filter.topics.begin(), options.filter.topics.end(), add);
}

// What the store cannot tell now its own examination reports.
void AddOfEvents(const RouteSetup& setup, std::set<std::string>& topics) {
  auto store = OpenOutboxStore(setup.store);
  auto pattern = TopicTemplate::Parse(setup.options.topic_template);
  if (!store || !pattern) return;
  const auto messages = (*store)->ListMessages({.limit = kNewestEvents});
  if (!messages) return;
  for (const StoredMessage& message : *messages) {
    const EnvelopeView event = ViewOf(message.envelope, "{}");
    if (setup.options.filter.Passes(event)) topics.insert(std::string(pattern->Apply(event)));
  }
}

Finding Missing(const std::string& subject, const TopicReport& topic, const BrokerReport& report) {
  const bool made = report.makes_topics.value_or(false);
  return {.level = made ? kNotice : kWrong,
          .code = "topic_missing",
          .subject = subject,
          .symptom = made ? fmt::format("topic {} is missing and will be made with the broker's defaults", topic.name)
                          : fmt::format("topic {} is missing, or this user may not see it", topic.name),
          .evidence = made ? "auto.create.topics.enable = true" : "it is not among the cluster's topics",
          .next = fmt::format("kafka-topics.sh --create --topic {} --partitions 12 --replication-factor {} "
                              "--bootstrap-server {}",
                              topic.name, std::min<std::size_t>(report.brokers.size(), 3),
                              report.brokers.empty() ? "HOST:PORT" : report.brokers.front().address)};
}

std::string AlterTopic(const TopicReport& topic, const BrokerReport& report, const std::string& setting) {
  return fmt::format(
      "kafka-configs.sh --alter --entity-type topics --entity-name {} --add-config {} --bootstrap-server {}",
      topic.name, setting, report.brokers.empty() ? "HOST:PORT" : report.brokers.front().address);
}

std::string Evidence(const TopicReport& topic) {
  std::string text = fmt::format("{} partitions, replication factor {}", topic.partitions, topic.replicas);
  if (topic.insync_min) text += fmt::format(", min.insync.replicas {}", *topic.insync_min);
  if (topic.message_bytes_max) text += fmt::format(", max.message.bytes {}", *topic.message_bytes_max);
  return text;
}

/// The one thing that is most wrong with the copies of a topic.
std::optional<Finding> JudgeReplicas(const std::string& subject, const TopicReport& topic,
                                     const BrokerReport& report) {
  const auto finding = [&](Finding::Level level, std::string code, std::string symptom, std::string next) {
    return Finding{level,           std::move(code), subject, fmt::format("topic {}: {}", topic.name, symptom),
                   Evidence(topic), std::move(next)};
  };
  const auto replicas = static_cast<std::int64_t>(topic.replicas);
  if (topic.without_leader > 0) {
    return finding(kWrong, "partition_without_leader",
                   fmt::format("{} partitions have no leader and take no messages", topic.without_leader),
                   "start the brokers that are away");
  }
  if (topic.insync_min && *topic.insync_min > replicas) {
    return finding(
        kWrong, "insync_exceeds_replicas", "nothing can be published, it has too few replicas",
        AlterTopic(topic, report, fmt::format("min.insync.replicas={}", std::max<std::int64_t>(replicas - 1, 1))));
  }
  if (topic.under_replicated > 0) {
    return finding(kNotice, "under_replicated",
                   fmt::format("{} partitions have replicas that are behind", topic.under_replicated),
                   "look at the brokers that are away or slow");
  }
  if (replicas == 1 && report.brokers.size() > 1) {
    return finding(kNotice, "single_replica", "its messages are lost with one disk",
                   "give it more replicas with kafka-reassign-partitions.sh");
  }
  if (replicas > 1 && topic.insync_min == 1) {
    return finding(kNotice, "insync_one", "a message counts as published while one broker alone has it",
                   AlterTopic(topic, report, fmt::format("min.insync.replicas={}", replicas > 2 ? 2 : replicas)));
  }
  if (replicas > 1 && topic.insync_min == replicas) {
    return finding(kNotice, "insync_all", "one broker that is away stops everything",
                   AlterTopic(topic, report, fmt::format("min.insync.replicas={}", replicas - 1)));
  }
  return std::nullopt;
}

std::optional<Finding> JudgeLimit(const std::string& subject, const TopicReport& topic, const BrokerReport& report,
                                  std::size_t payload_max) {
  const std::int64_t needed = static_cast<std::int64_t>(payload_max) + kAroundPayload;
  if (!topic.message_bytes_max || *topic.message_bytes_max >= needed) return std::nullopt;
  return Finding{kNotice,
                 "topic_limit_below_payload",
                 subject,
                 fmt::format("topic {} refuses events that the outbox accepts; they would be dead", topic.name),
                 fmt::format("max.message.bytes is {}, outbox.payload_max {}", *topic.message_bytes_max, payload_max),
                 fmt::format("{}, or lower outbox.payload_max",
                             AlterTopic(topic, report, fmt::format("max.message.bytes={}", needed)))};
}

}  // namespace

std::vector<std::string> ExpectedTopics(const Config& config, const std::string& broker,
                                        const std::set<std::string>& readable_stores) {
  std::set<std::string> topics;
  for (const auto& [name, route] : config.routes()) {
    if (route.Text(Key::kRouteBroker) != broker) continue;
    const auto setups = PlanRoutes(config, {.routes = {name}});
    if (!setups) continue;
    for (const RouteSetup& setup : *setups) {
      AddConfigured(setup.options, topics);
      if (readable_stores.contains(setup.options.store)) AddOfEvents(setup, topics);
    }
  }
  std::vector<std::string> some(topics.begin(), topics.end());
  some.resize(std::min(some.size(), kTopicsMax));
  return some;
}

std::vector<Finding> JudgeTopics(const std::string& subject, const BrokerReport& report, std::size_t payload_max) {
  std::vector<Finding> findings;
  if (report.topics_unanswered) {
    findings.push_back({kNotice, "topics_not_listed", subject, "the cluster did not list its topics in time",
                        "no answer to a request for its metadata", "sealane doctor --timeout 30s"});
  }
  for (const TopicReport& topic : report.topics) {
    if (!topic.is_there) {
      findings.push_back(Missing(subject, topic, report));
      continue;
    }
    const auto replicas = JudgeReplicas(subject, topic, report);
    const auto limit = JudgeLimit(subject, topic, report, payload_max);
    if (replicas) findings.push_back(*replicas);
    if (limit) findings.push_back(*limit);
    if (!replicas && !limit) {
      findings.push_back(
          {kGood, "topic", subject, fmt::format("topic {} is ready", topic.name), Evidence(topic), {}});
    }
  }
  return findings;
}

std::vector<Finding> JudgeLag(const std::string& subject, const std::vector<GroupLag>& groups) {
  constexpr std::int64_t kMuch = 10'000;
  std::vector<Finding> findings;
  for (const GroupLag& group : groups) {
    const std::string evidence = fmt::format("{} messages in {} partitions", group.messages, group.partitions);
    if (group.messages < kMuch) {
      findings.push_back(
          {kGood, "consumer_lag", subject, fmt::format("consumer {} keeps up", group.group), evidence, {}});
      continue;
    }
    findings.push_back({kNotice, "consumer_lag", subject, fmt::format("consumer {} is far behind", group.group),
                        evidence,
                        fmt::format("see that it runs (sealane inbox status), and run more of it: sealane consume "
                                    "--consumer {} with more --workers, or in more processes",
                                    group.group)});
  }
  return findings;
}

}  // namespace sealane::cli
