#include "kafka/properties.hpp"

#include <array>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "kafka/kafka_options.hpp"

namespace sealane::kafka {
namespace {

bool IsOneOf(std::string_view value, std::string_view choices) {
  while (!choices.empty()) {
    const std::size_t bar = choices.find('|');
    if (value == choices.substr(0, bar)) return true;
    if (bar == std::string_view::npos) break;
    choices.remove_prefix(bar + 1);
  }
  return false;
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

Status CheckHarmless(std::span<const Refusal> refusals, const std::string& name, const std::string& value) {
  for (const Refusal& refusal : refusals) {
    if (name != refusal.name || IsOneOf(value, refusal.allowed)) continue;
    return Error(
               ErrorKind::kMisconfigured, "kafka_property_refused",
               fmt::format("the Kafka property {}={} cannot be set: {}", name, EscapeForTerminal(value), refusal.why))
        .WithField(name)
        .WithHint("remove it");
  }
  return Ok();
}

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

void LogToUs(rd_kafka_conf_t& conf) {
  rd_kafka_conf_set_log_cb(&conf, &WriteLog);
}

}  // namespace sealane::kafka
