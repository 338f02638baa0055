#include "config/values.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "config/secret_reference.hpp"
#include "config/units.hpp"
#include "connect/broker_url.hpp"
#include "connect/store_url.hpp"
#include "outbox/bell.hpp"
#include "serve/listen_address.hpp"

namespace sealane::cli {
namespace {

using enum KeyType;

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

Error Bad(std::string message, std::string hint) {
  return Error(ErrorKind::kMisconfigured, "bad_configuration", std::move(message)).WithHint(std::move(hint));
}

Result<std::string> CheckDuration(std::string_view text, bool zero_allowed) {
  SEALANE_ASSIGN_OR_RETURN(const auto duration, ParseDuration(text));
  if (duration.count() == 0 && !zero_allowed) return Bad("it must not be 0", "give a duration, for example 5s");
  return FormatDuration(duration);
}

Result<std::string> CheckSize(std::string_view text) {
  SEALANE_ASSIGN_OR_RETURN(const std::uint64_t size, ParseSize(text));
  if (size == 0) return Bad("it must not be 0", "give a size, for example 900KiB");
  return FormatSize(size);
}

Result<std::string> CheckInteger(const KeySpec& spec, std::string_view text) {
  std::int64_t number = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = failure == std::errc{} && rest == text.data() + text.size();
  if (whole && number >= spec.low && number <= spec.high) return fmt::format("{}", number);
  return Bad(fmt::format("`{}` is not a whole number from {} to {}", text, spec.low, spec.high),
             fmt::format("choose one from {} to {}", spec.low, spec.high));
}

Result<std::string> CheckDecimal(const KeySpec& spec, std::string_view text) {
  double number = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = failure == std::errc{} && rest == text.data() + text.size();
  // Written so that a NaN fails too.
  if (whole && number >= static_cast<double>(spec.low) && number <= static_cast<double>(spec.high)) {
    return fmt::format("{}", number);
  }
  return Bad(fmt::format("`{}` is not a number from {} to {}", text, spec.low, spec.high),
             fmt::format("choose one from {} to {}", spec.low, spec.high));
}

Result<std::string> CheckTruth(std::string_view text) {
  if (text == "true" || text == "false") return std::string(text);
  return Bad(fmt::format("`{}` is neither true nor false", text), "write true or false");
}

Result<std::string> CheckChoice(const KeySpec& spec, std::string_view text) {
  const std::vector<std::string_view> choices = Split(spec.choices, '|');
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return std::string(text);
  const std::string_view meant = ClosestMatch(text, choices);
  return Bad(
      fmt::format("`{}` is none of {}", text, spec.choices),
      meant.empty() ? fmt::format("choose one of {}", spec.choices) : fmt::format("did you mean `{}`?", meant));
}

Result<std::string> CheckSchemaName(std::string_view text) {
  constexpr std::size_t kMax = 40;
  const auto is_start = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  const auto is_part = [&](char c) { return is_start(c) || (c >= '0' && c <= '9'); };
  const bool fits =
      !text.empty() && text.size() <= kMax && is_start(text[0]) && std::all_of(text.begin(), text.end(), is_part);
  if (fits) return std::string(text);
  return Bad(fmt::format("`{}` is not a schema name", text),
             "use lower-case letters, digits and _, not starting with a digit, at most 40");
}

Result<std::string> CheckHttpUrl(std::string_view text) {
  const bool known = text.starts_with("http://") || text.starts_with("https://");
  if (known && text.find_first_of("?#") == std::string_view::npos) return std::string(text);
  return Bad(known ? "the address has a query" : "it is no HTTP address", "write it as https://host/path");
}

Result<std::string> CheckList(std::string_view text, bool names) {
  std::vector<std::string_view> items;
  for (const std::string_view part : Split(text, ',')) {
    const std::string_view item = Trimmed(part);
    if (item.empty()) return Bad("an item of the list is empty", "leave it out, or leave the whole key out");
    if (names) SEALANE_RETURN_IF_ERROR(CheckSectionName(item));
    if (std::find(items.begin(), items.end(), item) != items.end()) {
      return Bad(fmt::format("`{}` stands twice in the list", item), "name it once");
    }
    items.push_back(item);
  }
  return fmt::format("{}", fmt::join(items, ","));
}

Result<std::string> CheckTemplate(std::string_view text) {
  constexpr std::array<std::string_view, 5> kFields = {"topic", "type", "tenant", "aggregate_type", "kind"};
  for (std::size_t at = 0; (at = text.find("${", at)) != std::string_view::npos; ++at) {
    const std::size_t end = text.find('}', at);
    if (end == std::string_view::npos) return Bad("a `${` is not closed", "write ${topic}");
    const std::string_view field = text.substr(at + 2, end - at - 2);
    if (std::find(kFields.begin(), kFields.end(), field) != kFields.end()) continue;
    const std::string_view meant = ClosestMatch(field, kFields);
    return Bad(fmt::format("`${{{}}}` is no field of an event", field),
               meant.empty() ? fmt::format("use ${{{}}}", fmt::join(kFields, "}, ${"))
                             : fmt::format("did you mean `${{{}}}`?", meant));
  }
  return std::string(text);
}

}  // namespace

std::string DescribeType(const KeySpec& spec) {
  switch (spec.type) {
    case kText:
      return "text";
    case kStoreUrl:
      return "store URL";
    case kBrokerUrl:
      return "broker URL";
    case kHttpUrl:
      return "HTTP URL";
    case kSchemaName:
    case kName:
      return "name";
    case kNames:
      return "list of names";
    case kPath:
      return "path";
    case kSecretFile:
      return "path of a secret";
    case kDuration:
      return "duration";
    case kDurationOrNone:
      return "duration or 0";
    case kSize:
      return "size";
    case kInteger:
      return "whole number";
    case kDecimal:
      return "number";
    case kTruth:
      return "true or false";
    case kChoice:
      return std::string(spec.choices);
    case kTexts:
      return "list of texts";
    case kSecretRefs:
      return "list of file:PATH, env:VARIABLE";
    case kTemplate:
      return "template";
    case kListen:
      return "HOST:PORT or off";
    case kWake:
      return "unix:PATH or udp:HOST:PORT";
  }
  SEALANE_ASSERT(false, "every type of key is described");
}

Result<std::string> CheckValue(const KeySpec& spec, std::string_view text) {
  switch (spec.type) {
    case kText:
    case kPath:
    case kSecretFile:
      return std::string(text);
    case kStoreUrl: {
      SEALANE_RETURN_IF_ERROR(ParseStoreUrl(text));
      return std::string(text);
    }
    case kBrokerUrl: {
      SEALANE_RETURN_IF_ERROR(ParseBrokerUrl(text));
      return std::string(text);
    }
    case kHttpUrl:
      return CheckHttpUrl(text);
    case kSchemaName:
      return CheckSchemaName(text);
    case kName: {
      SEALANE_RETURN_IF_ERROR(CheckSectionName(text));
      return std::string(text);
    }
    case kNames:
      return CheckList(text, true);
    case kTexts:
      return CheckList(text, false);
    case kSecretRefs: {
      SEALANE_ASSIGN_OR_RETURN(std::string list, CheckList(text, false));
      for (const std::string& item : ListItems(list)) SEALANE_RETURN_IF_ERROR(CheckSecretReference(item));
      return list;
    }
    case kTemplate:
      return CheckTemplate(text);
    case kDuration:
      return CheckDuration(text, false);
    case kDurationOrNone:
      return CheckDuration(text, true);
    case kSize:
      return CheckSize(text);
    case kInteger:
      return CheckInteger(spec, text);
    case kDecimal:
      return CheckDecimal(spec, text);
    case kTruth:
      return CheckTruth(text);
    case kChoice:
      return CheckChoice(spec, text);
    case kListen: {
      if (text != "off") SEALANE_RETURN_IF_ERROR(ParseListenAddress(text));
      return std::string(text);
    }
    case kWake: {
      SEALANE_RETURN_IF_ERROR(ParseBellAddress(text));
      return std::string(text);
    }
  }
  SEALANE_ASSERT(false, "every type of key is checked");
}

std::string ShownValue(const KeySpec& spec, std::string_view text) {
  if (text.empty()) return {};
  if (spec.secret) return "***";
  return IsUrl(spec.type) ? RedactUrl(text) : std::string(text);
}

bool IsUrl(KeyType type) {
  return type == kStoreUrl || type == kBrokerUrl || type == kHttpUrl;
}

bool IsBare(KeyType type) {
  return type == kTruth || type == kInteger || type == kDecimal;
}

bool IsList(KeyType type) {
  return type == kNames || type == kTexts || type == kSecretRefs;
}

std::vector<std::string> ListItems(std::string_view canonical) {
  std::vector<std::string> items;
  if (canonical.empty()) return items;
  for (const std::string_view item : Split(canonical, ',')) items.emplace_back(item);
  return items;
}

Status CheckSectionName(std::string_view name) {
  constexpr std::size_t kMax = 40;
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_part = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-'; };
  const bool fits = !name.empty() && name.size() <= kMax && is_letter(name[0]) &&
                    std::all_of(name.begin(), name.end(), is_part) && name.find("__") == std::string_view::npos;
  if (fits) return Ok();
  return Bad(fmt::format("`{}` is not a name", EscapeForTerminal(name)),
             "use lower-case letters, digits, _ and -, beginning with a letter, at most 40");
}

}  // namespace sealane::cli
