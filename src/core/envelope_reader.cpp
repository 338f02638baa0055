#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "sealane/envelope.hpp"

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "base/time_text.hpp"
#include "core/json_scan.hpp"

namespace sealane {
namespace {

Error FieldError(std::string code, std::string_view field, std::size_t at, std::string_view what) {
  return Error(ErrorKind::kRejected, std::move(code),
               fmt::format("envelope field {} at byte {}: {}", EscapeForTerminal(field), at, what))
      .WithField(std::string(field));
}

Error Mistyped(std::string_view field, const JsonSlice& value, std::string_view expected) {
  return FieldError("field_invalid", field, value.offset,
                    fmt::format("expected {}, found a JSON {}", expected, ToString(value.type)));
}

Result<std::string> ReadText(std::string_view field, const JsonSlice& value) {
  if (value.type != JsonType::kString) return Mistyped(field, value, "a string");
  auto text = DecodeJsonString(value);
  if (!text) return std::move(text).error().WithField(std::string(field));
  if (text->find('\0') != std::string::npos) return FieldError("nul_in_text", field, value.offset, "text has no NUL");
  return text;
}

Result<std::int64_t> ReadInteger(std::string_view field, const JsonSlice& value, std::int64_t min, std::int64_t max) {
  if (value.type != JsonType::kNumber) return Mistyped(field, value, "a whole number");
  const auto number = DecodeJsonInteger(value);
  if (!number || *number < min || *number > max) {
    return FieldError("field_invalid", field, value.offset,
                      fmt::format("expected a whole number from {} to {}", min, max));
  }
  return number;
}

Result<Timestamp> ReadTime(std::string_view field, const JsonSlice& value) {
  SEALANE_ASSIGN_OR_RETURN(const std::string text, ReadText(field, value));
  const auto time = ParseRfc3339(text);
  if (!time) {
    return FieldError("field_invalid", field, value.offset,
                      "expected an RFC 3339 time from 1970 to 9999, for example 2024-05-06T07:08:09.123456Z");
  }
  return *time;
}

Result<std::vector<JsonMember>> ReadMembers(std::string_view field, const JsonSlice& value) {
  if (value.type != JsonType::kObject) return Mistyped(field, value, "an object");
  std::vector<JsonMember> all;
  JsonMembers members(value);
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(auto member, members.Next());
    if (!member) return all;
    all.push_back(*std::move(member));
  }
}

// Reads the members of one envelope into `envelope_`; each known field at most once.
class Reader {
 public:
  Result<Envelope> Read(const JsonSlice& document);

 private:
  struct KnownField {
    std::string_view name;
    bool required;
    std::string Envelope::*text;  // null: the function below reads it
    Status (Reader::*read)(const JsonMember& member);
  };
  static const std::array<KnownField, 22> kFields;

  static Status CheckVersion(const std::vector<JsonMember>& members);
  Status ReadMember(JsonMember member);
  Status CheckRequired(const JsonSlice& document) const;
  bool Seen(std::string_view name) const;

  Status ReadNothing(const JsonMember& member);
  Status ReadId(const JsonMember& member);
  Status ReadKind(const JsonMember& member);
  Status ReadSchemaVersion(const JsonMember& member);
  Status ReadAggregate(const JsonMember& member);
  Status ReadHeaders(const JsonMember& member);
  Status ReadOccurredAt(const JsonMember& member);
  Status ReadAvailableAt(const JsonMember& member);
  Status ReadHash(const JsonMember& member);
  Status ReadPayload(const JsonMember& member);
  Status ReadPayloadBase64(const JsonMember& member);
  Status SettlePayload();

  Envelope envelope_;
  std::array<bool, 22> seen_{};
  bool hash_given_ = false;
  std::string decoded_payload_;
  // What the payload's bytes may be, best first, inside the document or in decoded_payload_.
  std::vector<std::string_view> payload_candidates_;
  std::size_t payload_offset_ = 0;
};

const std::array<Reader::KnownField, 22> Reader::kFields = {{
    {"sealane", true, nullptr, &Reader::ReadNothing},
    {"id", true, nullptr, &Reader::ReadId},
    {"kind", false, nullptr, &Reader::ReadKind},
    {"type", true, &Envelope::type, nullptr},
    {"schema_version", false, nullptr, &Reader::ReadSchemaVersion},
    {"tenant", false, &Envelope::tenant, nullptr},
    {"topic", true, &Envelope::topic, nullptr},
    {"key", true, &Envelope::key, nullptr},
    {"aggregate", false, nullptr, &Reader::ReadAggregate},
    {"correlation_id", false, &Envelope::correlation_id, nullptr},
    {"causation_id", false, &Envelope::causation_id, nullptr},
    {"traceparent", false, &Envelope::traceparent, nullptr},
    {"tracestate", false, &Envelope::tracestate, nullptr},
    {"producer", false, &Envelope::producer, nullptr},
    {"schema_id", false, &Envelope::schema_id, nullptr},
    {"content_type", false, &Envelope::content_type, nullptr},
    {"headers", false, nullptr, &Reader::ReadHeaders},
    {"occurred_at", true, nullptr, &Reader::ReadOccurredAt},
    {"available_at", false, nullptr, &Reader::ReadAvailableAt},
    {"payload_sha256", false, nullptr, &Reader::ReadHash},
    {"payload", false, nullptr, &Reader::ReadPayload},
    {"payload_base64", false, nullptr, &Reader::ReadPayloadBase64},
}};

Result<Envelope> Reader::Read(const JsonSlice& document) {
  SEALANE_ASSIGN_OR_RETURN(std::vector<JsonMember> members, ReadMembers("(document)", document));
  SEALANE_RETURN_IF_ERROR(CheckVersion(members));
  for (JsonMember& member : members) SEALANE_RETURN_IF_ERROR(ReadMember(std::move(member)));
  SEALANE_RETURN_IF_ERROR(CheckRequired(document));
  SEALANE_RETURN_IF_ERROR(SettlePayload());
  return std::move(envelope_);
}

// Looked at before everything else: in another version the other fields may mean something else.
Status Reader::CheckVersion(const std::vector<JsonMember>& members) {
  for (const JsonMember& member : members) {
    if (member.name != "sealane") continue;
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t version,
                             ReadInteger("sealane", member.value, 0, std::numeric_limits<std::int64_t>::max()));
    if (version == 1) continue;
    return FieldError("envelope_version_unsupported", "sealane", member.value.offset,
                      fmt::format("version {} of the envelope is not known here", version))
        .WithHint("upgrade this program before its producers, or let them write version 1");
  }
  return Ok();
}

Status Reader::ReadMember(JsonMember member) {
  const auto* const field = std::find_if(kFields.begin(), kFields.end(),
                                         [&](const KnownField& known) { return known.name == member.name; });
  if (field == kFields.end()) {
    envelope_.unknown.emplace_back(std::move(member.name), std::string(member.value.bytes));
    return Ok();
  }
  bool& seen = seen_.at(static_cast<std::size_t>(field - kFields.begin()));
  if (seen)
    return FieldError("field_doubled", field->name, member.name_offset, "the field stands here a second time");
  seen = true;
  if (field->text == nullptr) return (this->*field->read)(member);
  SEALANE_ASSIGN_OR_RETURN(envelope_.*field->text, ReadText(field->name, member.value));
  if (field->required && (envelope_.*field->text).empty()) {
    return FieldError("field_missing", field->name, member.value.offset, "the field must not be empty");
  }
  return Ok();
}

bool Reader::Seen(std::string_view name) const {
  const auto* const field =
      std::find_if(kFields.begin(), kFields.end(), [&](const KnownField& known) { return known.name == name; });
  return seen_.at(static_cast<std::size_t>(field - kFields.begin()));
}

Status Reader::CheckRequired(const JsonSlice& document) const {
  const std::size_t end = document.offset + document.bytes.size() - 1;
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    if (kFields[i].required && !seen_[i]) {
      return FieldError("field_missing", kFields[i].name, end, "the envelope ends without it");
    }
  }
  if (!Seen("payload") && !Seen("payload_base64")) {
    return FieldError("field_missing", "payload", end, "the envelope ends without it");
  }
  return Ok();
}

Status Reader::ReadNothing(const JsonMember&) {
  return Ok();
}

Status Reader::ReadId(const JsonMember& member) {
  SEALANE_ASSIGN_OR_RETURN(const std::string text, ReadText(member.name, member.value));
  const auto id = EventId::Parse(text);
  if (!id) return FieldError("field_invalid", "id", member.value.offset, "expected a UUID of 36 characters");
  if (id->is_nil()) return FieldError("nil_event_id", "id", member.value.offset, "no event has the nil UUID");
  envelope_.id = *id;
  return Ok();
}

Status Reader::ReadKind(const JsonMember& member) {
  SEALANE_ASSIGN_OR_RETURN(const std::string text, ReadText(member.name, member.value));
  const auto kind = ParseEventKind(text);
  if (!kind) return FieldError("field_invalid", "kind", member.value.offset, "expected \"event\" or \"command\"");
  envelope_.kind = *kind;
  return Ok();
}

Status Reader::ReadSchemaVersion(const JsonMember& member) {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t version,
                           ReadInteger(member.name, member.value, 1, std::numeric_limits<std::int32_t>::max()));
  envelope_.schema_version = static_cast<std::int32_t>(version);
  return Ok();
}

// New fields only ever join the top level, where they can be kept; in here they are refused rather than lost.
Status Reader::ReadAggregate(const JsonMember& member) {
  Aggregate& aggregate = envelope_.aggregate;
  std::vector<std::string> seen;
  SEALANE_ASSIGN_OR_RETURN(const auto parts, ReadMembers(member.name, member.value));
  for (const JsonMember& part : parts) {
    const std::string field = "aggregate." + part.name;
    if (std::find(seen.begin(), seen.end(), part.name) != seen.end()) {
      return FieldError("field_doubled", field, part.name_offset, "the field stands here a second time");
    }
    seen.push_back(part.name);
    if (part.name == "type") {
      SEALANE_ASSIGN_OR_RETURN(aggregate.type, ReadText(field, part.value));
    } else if (part.name == "id") {
      SEALANE_ASSIGN_OR_RETURN(aggregate.id, ReadText(field, part.value));
    } else if (part.name == "version") {
      SEALANE_ASSIGN_OR_RETURN(aggregate.version,
                               ReadInteger(field, part.value, 1, std::numeric_limits<std::int64_t>::max()));
    } else {
      return FieldError("field_invalid", field, part.name_offset, "an aggregate has type, id and version only");
    }
  }
  return Ok();
}

Status Reader::ReadHeaders(const JsonMember& member) {
  SEALANE_ASSIGN_OR_RETURN(auto parts, ReadMembers(member.name, member.value));
  std::vector<std::string_view> names;
  for (JsonMember& part : parts) {
    const std::string field = "headers." + part.name;
    if (part.name.find('\0') != std::string::npos) {
      return FieldError("nul_in_text", "headers", part.name_offset, "a header's name has no NUL");
    }
    SEALANE_ASSIGN_OR_RETURN(std::string value, ReadText(field, part.value));
    envelope_.headers.push_back({.name = part.name, .value = std::move(value)});
    names.push_back(part.name);
  }
  std::sort(names.begin(), names.end());
  const auto doubled = std::adjacent_find(names.begin(), names.end());
  if (doubled == names.end()) return Ok();
  return FieldError("field_doubled", fmt::format("headers.{}", *doubled), member.value.offset,
                    "the name stands twice");
}

Status Reader::ReadOccurredAt(const JsonMember& member) {
  SEALANE_ASSIGN_OR_RETURN(envelope_.occurred_at, ReadTime(member.name, member.value));
  return Ok();
}

Status Reader::ReadAvailableAt(const JsonMember& member) {
  SEALANE_ASSIGN_OR_RETURN(envelope_.available_at, ReadTime(member.name, member.value));
  return Ok();
}

Status Reader::ReadHash(const JsonMember& member) {
  SEALANE_ASSIGN_OR_RETURN(const std::string text, ReadText(member.name, member.value));
  const auto bytes = FromHex(text);
  if (!bytes || bytes->size() != envelope_.payload_hash.size()) {
    return FieldError("field_invalid", member.name, member.value.offset, "expected 64 hex digits");
  }
  std::copy(bytes->begin(), bytes->end(), envelope_.payload_hash.begin());
  hash_given_ = true;
  return Ok();
}

Status Reader::ReadPayload(const JsonMember& member) {
  payload_candidates_ = {member.span, member.value.bytes};
  payload_offset_ = member.value.offset;
  return Ok();
}

Status Reader::ReadPayloadBase64(const JsonMember& member) {
  SEALANE_ASSIGN_OR_RETURN(const std::string text, ReadText(member.name, member.value));
  auto bytes = FromBase64(text);
  if (!bytes) return FieldError("field_invalid", member.name, member.value.offset, "expected padded base64");
  decoded_payload_ = *std::move(bytes);
  payload_candidates_ = {decoded_payload_};
  payload_offset_ = member.value.offset;
  return Ok();
}

// Which whitespace around the payload belongs to it and which was added on the way, only the hash can tell.
Status Reader::SettlePayload() {
  if (Seen("payload") && Seen("payload_base64")) {
    return FieldError("field_doubled", "payload", payload_offset_, "payload and payload_base64 exclude each other");
  }
  if (!Seen("content_type") && Seen("payload")) envelope_.content_type = "application/json";
  if (!hash_given_) {
    envelope_.payload = payload_candidates_.back();
    envelope_.payload_hash = Sha256(envelope_.payload);
    return Ok();
  }
  for (const std::string_view candidate : payload_candidates_) {
    if (Sha256(candidate) != envelope_.payload_hash) continue;
    envelope_.payload = candidate;
    return Ok();
  }
  return FieldError("payload_hash_mismatch", "payload", payload_offset_, "its SHA-256 is not payload_sha256")
      .WithHint("something between producer and reader rewrote the JSON; pass the bytes through untouched");
}

}  // namespace

Result<Envelope> EnvelopeFromJson(std::string_view json) {
  // One level more than a payload may have, because the payload stands inside the envelope.
  SEALANE_ASSIGN_OR_RETURN(const JsonSlice document, ScanJson(json, kJsonDepthMax + 1));
  return Reader().Read(document);
}

}  // namespace sealane
