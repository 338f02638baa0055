#include "config/keys.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/units.hpp"
#include "store_url.hpp"

namespace sealane::cli {
namespace {

using enum KeyType;

constexpr std::array<KeySpec, 11> kKeys = {{
    {Key::kStoreUrl, "store.url", kStoreUrl, "", false,
     "The database with the outbox: postgres://user@host:port/database or sqlite:PATH."},
    {Key::kStoreSchema, "store.schema", kSchemaName, "sealane", false,
     "The PostgreSQL schema that holds the tables; SQLite has none."},
    {Key::kStorePasswordFile, "store.password_file", kSecretFile, "", false,
     "A file whose content is the database password."},
    {Key::kStoreConnectTimeout, "store.connect_timeout", kDuration, "5s", false,
     "How long to wait for a connection, or for another writer of a SQLite file."},
    {Key::kStoreStatementTimeout, "store.statement_timeout", kDurationOrNone, "30s", false,
     "How long one statement may run in PostgreSQL; 0 is without limit."},
    {Key::kStoreCreateRoles, "store.create_roles", kTruth, "true", false,
     "Whether `sealane migrate up` makes the writer, relay and operator roles."},
    {Key::kOutboxProducer, "outbox.producer", kText, "", false, "Name of this service, for events that carry none."},
    {Key::kOutboxPayloadMax, "outbox.payload_max", kSize, "900KiB", false, "The largest payload that is accepted."},
    {Key::kOutboxSchemasDir, "outbox.schemas_dir", kPath, "", false,
     "Folder of JSON Schemas named TYPE.vVERSION.json; payloads of those types must fit."},
    {Key::kLogLevel, "log.level", kChoice, "info", false, "The least important lines to log.",
     "debug|info|warning|error"},
    {Key::kLogFormat, "log.format", kChoice, "text", false, "Log lines for people, or one JSON object per line.",
     "text|json"},
}};

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
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

}  // namespace

std::span<const KeySpec> Keys() {
  return kKeys;
}

const KeySpec& SpecOf(Key key) {
  const KeySpec& spec = kKeys.at(static_cast<std::size_t>(key));
  SEALANE_ASSERT(spec.key == key, "the table of keys stands in the order of the enum");
  return spec;
}

const KeySpec* FindKey(std::string_view name) {
  const auto found = std::find_if(kKeys.begin(), kKeys.end(), [&](const KeySpec& spec) { return spec.name == name; });
  return found == kKeys.end() ? nullptr : &*found;
}

std::string VariableName(const KeySpec& spec) {
  std::string name = "SEALANE_";
  for (const char c : spec.name) {
    if (c == '.') {
      name += "__";
    } else {
      name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
  }
  return name;
}

std::string DescribeType(const KeySpec& spec) {
  switch (spec.type) {
    case kText:
      return "text";
    case kStoreUrl:
      return "store URL";
    case kSchemaName:
      return "name";
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
    case kTruth:
      return "true or false";
    case kChoice:
      return std::string(spec.choices);
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
    case kSchemaName:
      return CheckSchemaName(text);
    case kDuration:
      return CheckDuration(text, false);
    case kDurationOrNone:
      return CheckDuration(text, true);
    case kSize:
      return CheckSize(text);
    case kTruth:
      return CheckTruth(text);
    case kChoice:
      return CheckChoice(spec, text);
  }
  SEALANE_ASSERT(false, "every type of key is checked");
}

std::string ShownValue(const KeySpec& spec, std::string_view text) {
  if (text.empty()) return {};
  if (spec.secret) return "***";
  return spec.type == kStoreUrl ? RedactUrl(text) : std::string(text);
}

}  // namespace sealane::cli
