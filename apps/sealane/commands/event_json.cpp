#include "commands/event_json.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/text.hpp"
#include "commands/event_fields.hpp"
#include "core/json_scan.hpp"

namespace sealane::cli {
namespace {

Error Invalid(std::string message) {
  return Error(ErrorKind::kRejected, "invalid_field", std::move(message));
}

Status ExpectType(const JsonSlice& value, JsonType type) {
  if (value.type == type) return Ok();
  return Invalid(fmt::format("a {} is expected, not a {}", ToString(type), ToString(value.type)));
}

Result<std::string> TextOf(const JsonSlice& value) {
  SEALANE_RETURN_IF_ERROR(ExpectType(value, JsonType::kString));
  return DecodeJsonString(value);
}

Status SetField(const EventField& field, Event& event, const JsonSlice& value, Timestamp now) {
  if (field.type == EventFieldType::kInteger) {
    SEALANE_RETURN_IF_ERROR(ExpectType(value, JsonType::kNumber));
    return field.set(event, value.bytes, now);
  }
  SEALANE_ASSIGN_OR_RETURN(const std::string text, TextOf(value));
  return field.set(event, text, now);
}

Status SetHeaders(Event& event, const JsonSlice& value) {
  SEALANE_RETURN_IF_ERROR(ExpectType(value, JsonType::kObject));
  JsonMembers members(value);
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const auto member, members.Next());
    if (!member) return Ok();
    SEALANE_ASSIGN_OR_RETURN(std::string text, TextOf(member->value));
    event.headers.push_back({member->name, std::move(text)});
  }
}

Status SetPayload(Event& event, std::string_view name, const JsonSlice& value) {
  if (name == "payload") {
    event.payload = value.bytes;
    return Ok();
  }
  SEALANE_ASSIGN_OR_RETURN(const std::string text, TextOf(value));
  if (name == "payload_text") {
    event.payload = text;
    return Ok();
  }
  auto bytes = FromBase64(text);
  if (!bytes) return Invalid("it is not base64 with padding");
  event.payload = *std::move(bytes);
  return Ok();
}

Error UnknownMember(std::string_view name) {
  std::vector<std::string_view> known = {"payload", "payload_text", "payload_base64", "headers", "unique_version"};
  for (const EventField& field : EventFields()) known.push_back(field.name);
  const std::string_view meant = ClosestMatch(name, known);
  Error error(ErrorKind::kRejected, "unknown_field", "there is no such field");
  return meant.empty() ? error : std::move(error).WithHint(fmt::format("did you mean `{}`?", meant));
}

Status SetMember(Event& event, const JsonMember& member, Timestamp now) {
  const auto field = std::find_if(EventFields().begin(), EventFields().end(),
                                  [&](const EventField& f) { return f.name == member.name; });
  if (field != EventFields().end()) {
    // Null is how many writers say that a value is not there.
    if (member.value.type == JsonType::kNull && !field->required) return Ok();
    return SetField(*field, event, member.value, now);
  }
  if (member.name.starts_with("payload")) {
    const bool known = member.name == "payload" || member.name == "payload_text" || member.name == "payload_base64";
    return known ? SetPayload(event, member.name, member.value) : UnknownMember(member.name);
  }
  if (member.name == "headers") return SetHeaders(event, member.value);
  if (member.name == "unique_version") {
    SEALANE_RETURN_IF_ERROR(ExpectType(member.value, JsonType::kBool));
    event.unique_version = member.value.bytes == "true";
    return Ok();
  }
  return UnknownMember(member.name);
}

Error NamingField(const Error& error, std::string_view name) {
  return Error(ErrorKind::kRejected, error.code(), fmt::format("{}: {}", name, error.message()))
      .WithHint(error.hint())
      .WithField(std::string(name));
}

Status CheckComplete(const std::set<std::string>& seen) {
  for (const EventField& field : EventFields()) {
    if (field.required && !seen.contains(std::string(field.name))) {
      return NamingField(Error(ErrorKind::kRejected, "missing_field", "it is missing"), field.name);
    }
  }
  const std::size_t payloads = seen.count("payload") + seen.count("payload_text") + seen.count("payload_base64");
  if (payloads == 1) return Ok();
  return NamingField(Error(ErrorKind::kRejected, payloads == 0 ? "missing_field" : "doubled_field",
                           payloads == 0 ? "it is missing" : "it is given in two forms")
                         .WithHint("give one of payload, payload_text and payload_base64"),
                     "payload");
}

}  // namespace

Result<Event> EventFromJson(std::string_view json, Timestamp now) {
  SEALANE_ASSIGN_OR_RETURN(const JsonSlice object, ScanJson(json));
  SEALANE_RETURN_IF_ERROR(ExpectType(object, JsonType::kObject));
  Event event;
  std::set<std::string> seen;
  JsonMembers members(object);
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const auto member, members.Next());
    if (!member) break;
    if (!seen.insert(member->name).second) {
      return NamingField(Error(ErrorKind::kRejected, "doubled_field", "it comes twice"), member->name);
    }
    if (auto set = SetMember(event, *member, now); !set) return NamingField(set.error(), member->name);
  }
  SEALANE_RETURN_IF_ERROR(CheckComplete(seen));
  return event;
}

}  // namespace sealane::cli
