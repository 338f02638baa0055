#include "core/cloud_event.hpp"

#include <algorithm>
#include <string>

#include "base/hex.hpp"

namespace sealane {
namespace {

constexpr bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// A producer's name may be any text; a source is a URI reference.
void AppendPercentEncoded(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (const char c : text) {
    if (IsLetter(c) || IsDigit(c) || std::string_view("-._~").find(c) != std::string_view::npos) {
      out.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.push_back('%');
      out.push_back(kDigits[byte >> 4U]);
      out.push_back(kDigits[byte & 15U]);
    }
  }
}

bool IsAbsoluteUri(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size() || !IsLetter(text[0])) return false;
  const auto in_scheme = [](char c) { return IsLetter(c) || IsDigit(c) || c == '+' || c == '-' || c == '.'; };
  const auto in_uri = [](char c) {
    return c > 0x20 && c < 0x7f && std::string_view("\"<>\\^`{|}").find(c) == std::string_view::npos;
  };
  return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(colon), in_scheme) &&
         std::all_of(text.begin(), text.end(), in_uri);
}

std::string_view SourceOf(TextArena& texts, std::string_view producer) {
  return texts.Made([&](std::string& out) {
    out += "/sealane/";
    AppendPercentEncoded(out, producer.empty() ? "unknown" : producer);
  });
}

}  // namespace

std::size_t CloudAttributesSizeMax(const EnvelopeView& event) {
  constexpr std::size_t kFixedSize = 36 + 2 * 27 + 2 * 20 + 16;  // id, times, numbers, the default source
  return kFixedSize + 3 * event.producer.size() + 2 * event.payload_hash.size();
}

void AppendCloudAttributes(std::vector<CloudAttribute>& out, TextArena& texts, const EnvelopeView& event,
                           std::string_view source) {
  const auto add = [&](std::string_view header_name, std::string_view value) {
    if (!value.empty()) out.push_back({.header_name = header_name, .value = value});
  };
  add("ce_specversion", "1.0");
  add("ce_id", texts.Id(event.id));
  add("ce_source", source.empty() ? SourceOf(texts, event.producer) : source);
  add("ce_type", event.type);
  // Optional in the specification, but there are SDKs that cannot read an event without it.
  add("ce_time", texts.Time(event.occurred_at));
  add("ce_subject", event.aggregate_id);
  add(IsAbsoluteUri(event.schema_id) ? "ce_dataschema" : "ce_schemaid", event.schema_id);
  add("ce_partitionkey", event.key);
  add("ce_kind", ToString(event.kind));
  out.push_back({.header_name = "ce_schemaversion", .value = texts.Number(event.schema_version), .is_integer = true});
  add("ce_tenantid", event.tenant);
  add("ce_aggregatetype", event.aggregate_type);
  // Text, because a version has 64 bits.
  if (event.aggregate_version) add("ce_aggregateversion", texts.Number(*event.aggregate_version));
  add("ce_correlationid", event.correlation_id);
  add("ce_causationid", event.causation_id);
  add("ce_producer", event.producer);
  if (event.available_at) add("ce_availableat", texts.Time(*event.available_at));
  add("ce_payloadsha256", texts.Hex(event.payload_hash));
}

}  // namespace sealane
