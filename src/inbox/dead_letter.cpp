#include "inbox/dead_letter.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "base/time_text.hpp"
#include "core/headers_json.hpp"

namespace sealane {
namespace {

constexpr std::size_t kMessageMax = 1'000;

/// A broker's key or header may hold any bytes; those of an event are text.
std::string AsText(const std::string& bytes, std::string_view otherwise) {
  const bool text = IsUtf8(bytes) && bytes.find('\0') == std::string::npos;
  return text ? bytes : std::string(otherwise);
}

}  // namespace

Event MakeDeadLetter(const Incoming& incoming, const DeathNotice& notice, const ConsumerOptions& options) {
  const ReceivedMessage& message = incoming.message;
  Event letter{
      .topic = options.dead_letter_topic,
      .key = AsText(message.key, {}),
      .type = "sealane.DeadLetter",
      .payload = message.value,
  };
  // An event has a key; a message need not.
  if (letter.key.empty()) letter.key = incoming.unit.substr(0, incoming.unit.find('\0'));
  if (!IsUtf8(letter.key)) letter.key = incoming.id.ToString();
  letter.content_type = "application/octet-stream";
  letter.producer = options.consumer;
  letter.causation_id = incoming.id.ToString();
  letter.kind = EventKind::kEvent;

  Headers& headers = letter.headers;
  const auto add = [&headers](std::string name, std::string value) {
    if (!value.empty()) headers.push_back({std::move(name), std::move(value)});
  };
  add("dlq-event-id", incoming.id.ToString());
  add("dlq-consumer", options.consumer);
  add("dlq-code", notice.code);
  std::string text = AsText(notice.message, "(not text)");
  if (text.size() > kMessageMax) {
    std::size_t end = kMessageMax;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
    text.resize(end);
  }
  add("dlq-message", std::move(text));
  add("dlq-topic", message.partition.topic);
  add("dlq-partition", std::to_string(message.partition.number));
  add("dlq-offset", std::to_string(message.offset));
  add("dlq-attempts", std::to_string(notice.attempts));
  add("dlq-first-failed-at", ToRfc3339(notice.first_failed_at));
  add("dlq-last-failed-at", ToRfc3339(notice.last_failed_at));
  add("dlq-criticality", options.criticality);
  add("dlq-owner", options.owner_team);
  add("dlq-replayable", notice.replayable ? "true" : "false");
  if (incoming.envelope) {
    letter.tenant = incoming.envelope->tenant;
    letter.correlation_id = incoming.envelope->correlation_id;
    letter.traceparent = incoming.envelope->traceparent;
    add("dlq-event-type", incoming.envelope->type);
    add("dlq-event-version", std::to_string(incoming.envelope->schema_version));
  }
  // As one text: the original's names would collide with ours, and some are reserved.
  Headers original;
  for (const Header& header : message.headers) {
    if (std::ranges::find(original, header.name, &Header::name) != original.end())
      continue;  // an object has each once
    original.push_back({AsText(header.name, "(not text)"), AsText(header.value, "(not text)")});
  }
  add("dlq-headers", HeadersToJson(original));
  return letter;
}

}  // namespace sealane
