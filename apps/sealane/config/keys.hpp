#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sealane/result.hpp"

namespace sealane::cli {

/// Every setting there is. The order is that of Keys().
enum class Key : std::uint8_t {
  kStoreUrl,
  kStoreSchema,
  kStorePasswordFile,
  kStoreConnectTimeout,
  kStoreStatementTimeout,
  kStoreCreateRoles,
  kOutboxProducer,
  kOutboxPayloadMax,
  kOutboxSchemasDir,
  kLogLevel,
  kLogFormat,
};

enum class KeyType : std::uint8_t {
  kText,
  kStoreUrl,    ///< may carry a password: shown through RedactUrl()
  kSchemaName,  ///< a plain SQL identifier
  kPath,
  kSecretFile,  ///< a path whose content is a secret; the path itself may be shown
  kDuration,
  kDurationOrNone,  ///< 0 means without limit
  kSize,
  kTruth,
  kChoice,
};

/// One row of the table from which parsing, environment names, `config print` and docs/configuration.md are made.
struct KeySpec {
  Key key;
  std::string_view name;  ///< `store.url`
  KeyType type;
  std::string_view default_text;  ///< empty: not set
  bool secret;                    ///< never shown
  std::string_view doc;           ///< one line
  std::string_view choices = {};  ///< for kChoice, separated by '|'
};

std::span<const KeySpec> Keys();
const KeySpec& SpecOf(Key key);
/// Null when there is no such key.
const KeySpec* FindKey(std::string_view name);

/// `store.connect_timeout` is SEALANE_STORE__CONNECT_TIMEOUT.
std::string VariableName(const KeySpec& spec);

/// What a value of this key may look like, for people: `duration`, `true or false`, ...
std::string DescribeType(const KeySpec& spec);

/// Checks a value given as text and returns its canonical spelling. Errors are kMisconfigured with a hint; they never
/// repeat a value that may hold a secret.
Result<std::string> CheckValue(const KeySpec& spec, std::string_view text);

/// The value as it may be shown anywhere.
std::string ShownValue(const KeySpec& spec, std::string_view text);

}  // namespace sealane::cli
