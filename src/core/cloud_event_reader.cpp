#include "core/cloud_event_reader.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/text.hpp"
#include "core/content_type.hpp"
#include "core/field_text.hpp"
#include "core/fingerprint.hpp"
#include "core/header_reader.hpp"
#include "core/json_scan.hpp"

namespace sealane {
namespace {

// Context attributes by their bare names, each taken at most once; what is left are extensions of other people.
class Attributes {
 public:
  explicit Attributes(HeaderReader::Named named) : named_(std::move(named)) {}

  // Empty when it is not there: an attribute has no empty value.
  std::string Take(std::string_view name) {
    const auto found =
        std::find_if(named_.begin(), named_.end(), [&](const auto& attribute) { return attribute.first == name; });
    if (found == named_.end()) return {};
    std::string value = std::move(found->second);
    named_.erase(found);
    return value;
  }
  // The first of these that is there, else what is given.
  std::string TakeOr(std::string_view name, std::string otherwise) {
    std::string value = Take(name);
    return value.empty() ? std::move(otherwise) : value;
  }
  Result<std::string> TakeRequired(std::string_view name) {
    std::string value = Take(name);
    if (value.empty()) return MessageError("field_missing", name, "every CloudEvent has it");
    return value;
  }

  Headers LeftAsHeaders() && {
    Headers headers;
    for (auto& [name, value] : named_) headers.push_back({.name = "ce_" + name, .value = std::move(value)});
    return headers;
  }

 private:
  HeaderReader::Named named_;
};

// An event without its data, and the hash that the data must have.
struct Context {
  Envelope envelope;
  std::optional<PayloadHash> hash;
};

Status ReadIdentity(Attributes& attributes, Envelope& envelope) {
  SEALANE_ASSIGN_OR_RETURN(const std::string version, attributes.TakeRequired("specversion"));
  if (version != "1.0") {
    return MessageError("envelope_version_unsupported", "specversion",
                        fmt::format("version \"{}\" of CloudEvents is not known here",
                                    EscapeForTerminal(std::string_view(version).substr(0, 40))))
        .WithHint("let the producer write version 1.0");
  }
  SEALANE_ASSIGN_OR_RETURN(std::string id, attributes.TakeRequired("id"));
  SEALANE_ASSIGN_OR_RETURN(std::string source, attributes.TakeRequired("source"));
  SEALANE_ASSIGN_OR_RETURN(envelope.type, attributes.TakeRequired("type"));
  if (const auto uuid = EventId::Parse(id)) {
    if (uuid->is_nil()) return MessageError("nil_event_id", "id", "no event has the nil UUID");
    envelope.id = *uuid;
  } else {
    envelope.id = ForeignEventId(source, id);
    envelope.headers.push_back({.name = "ce_id", .value = std::move(id)});
  }
  // What our relays write for a producer without a name says nothing about it.
  envelope.producer = attributes.TakeOr("producer", source.starts_with("/sealane/") ? std::string{} : source);
  return Ok();
}

Status ReadNumbersAndTimes(Attributes& attributes, const WireInput& input, Context& context) {
  Envelope& envelope = context.envelope;
  envelope.occurred_at = input.published_at;
  if (const std::string text = attributes.Take("time"); !text.empty()) {
    SEALANE_ASSIGN_OR_RETURN(envelope.occurred_at, ReadFieldTime("time", text));
  }
  if (const std::string text = attributes.Take("availableat"); !text.empty()) {
    SEALANE_ASSIGN_OR_RETURN(envelope.available_at, ReadFieldTime("availableat", text));
  }
  if (const std::string text = attributes.Take("kind"); !text.empty()) {
    SEALANE_ASSIGN_OR_RETURN(envelope.kind, ReadFieldKind("kind", text));
  }
  if (const std::string text = attributes.Take("schemaversion"); !text.empty()) {
    SEALANE_ASSIGN_OR_RETURN(envelope.schema_version, ReadSchemaVersion("schemaversion", text));
  }
  if (const std::string text = attributes.Take("aggregateversion"); !text.empty()) {
    SEALANE_ASSIGN_OR_RETURN(envelope.aggregate.version,
                             ReadFieldInteger("aggregateversion", text, 1, std::numeric_limits<std::int64_t>::max()));
  }
  if (const std::string text = attributes.Take("payloadsha256"); !text.empty()) {
    SEALANE_ASSIGN_OR_RETURN(context.hash, ReadFieldHash("payloadsha256", text));
  }
  return Ok();
}

Result<Context> ReadContext(Attributes attributes, const WireInput& input) {
  Context context;
  Envelope& envelope = context.envelope;
  SEALANE_RETURN_IF_ERROR(ReadIdentity(attributes, envelope));
  SEALANE_RETURN_IF_ERROR(ReadNumbersAndTimes(attributes, input, context));
  SEALANE_ASSIGN_OR_RETURN(envelope.topic, ReadFieldText("topic", input.topic));
  envelope.key = attributes.TakeOr("partitionkey", ReadRecordKey(input.key));
  envelope.tenant = attributes.Take("tenantid");
  envelope.aggregate.type = attributes.Take("aggregatetype");
  envelope.aggregate.id = attributes.Take("subject");
  envelope.correlation_id = attributes.Take("correlationid");
  envelope.causation_id = attributes.Take("causationid");
  envelope.traceparent = attributes.Take("traceparent");
  envelope.tracestate = attributes.Take("tracestate");
  envelope.schema_id = attributes.TakeOr("schemaid", attributes.Take("dataschema"));
  envelope.content_type = attributes.Take("datacontenttype");
  Headers extensions = std::move(attributes).LeftAsHeaders();
  std::move(extensions.begin(), extensions.end(), std::back_inserter(envelope.headers));
  return context;
}

// An event's own header replaces an extension of the same name: names are unique within an event.
void AddOwnHeaders(Envelope& envelope, Headers own) {
  for (Header& header : own) {
    std::erase_if(envelope.headers, [&](const Header& earlier) { return earlier.name == header.name; });
    envelope.headers.push_back(std::move(header));
  }
}

// An attribute as the text that it is in the binary mode.
Result<std::string> AttributeText(const JsonMember& member) {
  switch (member.value.type) {
    case JsonType::kNumber:
    case JsonType::kBool:
      return std::string(member.value.bytes);
    case JsonType::kString: {
      auto text = DecodeJsonString(member.value);
      if (!text) return std::move(text).error().WithField(member.name);
      return ReadFieldText(member.name, *text);
    }
    default:
      return MessageError(
          "field_invalid", member.name,
          fmt::format("expected a text, a number or a boolean, found a JSON {}", ToString(member.value.type)));
  }
}

// The members of the document, data apart.
struct Document {
  HeaderReader::Named attributes;
  std::optional<JsonMember> data;
  std::optional<JsonMember> data_base64;
};

Result<Document> ReadDocument(std::string_view json) {
  // One level more than a payload may have, because the payload stands inside the document.
  SEALANE_ASSIGN_OR_RETURN(const JsonSlice slice, ScanJson(json, kJsonDepthMax + 1));
  if (slice.type != JsonType::kObject) {
    return MessageError("field_invalid", "(document)",
                        fmt::format("expected an object, found a JSON {}", ToString(slice.type)));
  }
  Document document;
  std::vector<std::string> seen;
  JsonMembers members(slice);
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(auto member, members.Next());
    if (!member) break;
    SEALANE_RETURN_IF_ERROR(ReadFieldText("(name)", member->name));
    seen.push_back(member->name);
    if (member->name == "data") {
      document.data = *std::move(member);
    } else if (member->value.type == JsonType::kNull) {
      continue;  // the JSON format's way to say that the attribute is not there
    } else if (member->name == "data_base64") {
      document.data_base64 = *std::move(member);
    } else {
      SEALANE_ASSIGN_OR_RETURN(std::string text, AttributeText(*member));
      document.attributes.emplace_back(std::move(member->name), std::move(text));
    }
  }
  std::sort(seen.begin(), seen.end());
  const auto doubled = std::adjacent_find(seen.begin(), seen.end());
  if (doubled != seen.end()) return MessageError("field_doubled", *doubled, "the name stands twice");
  if (document.data && document.data_base64) {
    return MessageError("field_doubled", "data", "data and data_base64 exclude each other");
  }
  return document;
}

Status ReadBase64Data(const JsonMember& member, Context& context) {
  if (member.value.type != JsonType::kString) {
    return MessageError("field_invalid", "data_base64", "expected a string of padded base64");
  }
  SEALANE_ASSIGN_OR_RETURN(const std::string text, DecodeJsonString(member.value));
  const auto bytes = FromBase64(text);
  if (!bytes) return MessageError("field_invalid", "data_base64", "expected padded base64");
  const std::array<std::string_view, 1> candidates = {*bytes};
  return SettlePayload(context.envelope, candidates, context.hash);
}

// Data of a type that is not JSON may stand there as a string: then the text is the data. Otherwise the bytes of the
// JSON value are; which whitespace around them belongs to it, only the hash can tell.
Status ReadData(const JsonMember& member, Context& context) {
  Envelope& envelope = context.envelope;
  if (envelope.content_type.empty()) envelope.content_type = "application/json";
  std::vector<std::string_view> candidates = {member.span, member.value.bytes};
  std::string text;
  if (member.value.type == JsonType::kString && !IsJsonContentType(envelope.content_type)) {
    SEALANE_ASSIGN_OR_RETURN(text, DecodeJsonString(member.value));
    candidates.push_back(text);
  }
  return SettlePayload(envelope, candidates, context.hash);
}

}  // namespace

Result<Envelope> ReadBinaryCloudEvent(const WireInput& input) {
  HeaderReader headers(input.headers);
  SEALANE_ASSIGN_OR_RETURN(auto attributes, headers.TakeAll("ce_"));
  SEALANE_ASSIGN_OR_RETURN(Context context, ReadContext(Attributes(std::move(attributes)), input));
  Envelope& envelope = context.envelope;
  for (const auto& [name, field] : {std::pair{"content-type", &Envelope::content_type},
                                    {"traceparent", &Envelope::traceparent},
                                    {"tracestate", &Envelope::tracestate}}) {
    SEALANE_ASSIGN_OR_RETURN(std::string text, headers.Take(name));
    if (!text.empty()) envelope.*field = std::move(text);
  }
  AddOwnHeaders(envelope, headers.Rest());
  const std::array<std::string_view, 1> candidates = {input.value};
  SEALANE_RETURN_IF_ERROR(SettlePayload(envelope, candidates, context.hash));
  return std::move(envelope);
}

Result<Envelope> ReadStructuredCloudEvent(const WireInput& input) {
  SEALANE_ASSIGN_OR_RETURN(Document document, ReadDocument(input.value));
  SEALANE_ASSIGN_OR_RETURN(Context context, ReadContext(Attributes(std::move(document.attributes)), input));
  Envelope& envelope = context.envelope;
  HeaderReader headers(input.headers);
  SEALANE_RETURN_IF_ERROR(headers.Take("content-type"));  // of the document, not of the event
  // The same attributes may stand in the headers too; the document is what counts.
  SEALANE_RETURN_IF_ERROR(headers.TakeAll("ce_"));
  for (const auto& [name, field] :
       {std::pair{"traceparent", &Envelope::traceparent}, {"tracestate", &Envelope::tracestate}}) {
    SEALANE_ASSIGN_OR_RETURN(std::string text, headers.Take(name));
    if ((envelope.*field).empty()) envelope.*field = std::move(text);
  }
  AddOwnHeaders(envelope, headers.Rest());
  if (document.data) {
    SEALANE_RETURN_IF_ERROR(ReadData(*document.data, context));
  } else if (document.data_base64) {
    SEALANE_RETURN_IF_ERROR(ReadBase64Data(*document.data_base64, context));
  } else {
    const std::array<std::string_view, 1> nothing = {std::string_view{}};
    SEALANE_RETURN_IF_ERROR(SettlePayload(envelope, nothing, context.hash));
  }
  return std::move(envelope);
}

}  // namespace sealane
