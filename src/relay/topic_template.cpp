#include "relay/topic_template.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view EnvelopeView::*>, 5> kFields = {{
    {"topic", &EnvelopeView::topic},
    {"type", &EnvelopeView::type},
    {"tenant", &EnvelopeView::tenant},
    {"aggregate_type", &EnvelopeView::aggregate_type},
    {"key", &EnvelopeView::key},
}};

constexpr bool MayStandInTopic(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

Error BadTemplate(std::string message) {
  return Error(ErrorKind::kMisconfigured, "bad_topic_template", std::move(message))
      .WithField("topic")
      .WithHint("fields are ${topic}, ${type}, ${tenant}, ${aggregate_type}, ${key} and ${kind}");
}

}  // namespace

Result<TopicTemplate> TopicTemplate::Parse(std::string_view pattern) {
  TopicTemplate made;
  std::string text;
  const auto end_text = [&] {
    if (!text.empty()) made.parts_.push_back(Part{std::exchange(text, {})});
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '$' || i + 1 == pattern.size() || pattern[i + 1] != '{') {
      if (!MayStandInTopic(pattern[i])) {
        return BadTemplate(fmt::format("`{}` cannot stand in a topic", pattern[i]));
      }
      text.push_back(pattern[i]);
      continue;
    }
    const std::size_t close = pattern.find('}', i);
    if (close == std::string_view::npos) return BadTemplate("a `${` is not closed by `}`");
    const std::string_view name = pattern.substr(i + 2, close - i - 2);
    end_text();
    Part part;
    part.kind = name == "kind";
    for (const auto& [field, member] : kFields) {
      if (field == name) part.field = member;
    }
    if (part.field == nullptr && !part.kind) return BadTemplate(fmt::format("an event has no field `{}`", name));
    made.parts_.push_back(std::move(part));
    i = close;
  }
  end_text();
  return made;
}

std::string_view TopicTemplate::Apply(const EnvelopeView& event) {
  if (parts_.empty()) return event.topic;
  made_.clear();
  for (const Part& part : parts_) {
    if (part.kind) {
      made_ += ToString(event.kind);
    } else if (part.field == nullptr) {
      made_ += part.text;
    } else {
      for (const char c : event.*part.field) made_.push_back(MayStandInTopic(c) ? c : '_');
    }
  }
  return made_;
}

}  // namespace sealane
