#pragma once

#include <cstdint>
#include <limits>
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
  kBrokerUrl,
  kBrokerHttpTimeout,
  kBrokerHttpCaFile,
  kBrokerJournalPartitions,
  kBrokerJournalRetention,
  kBrokerTopicsCreate,
  kBrokerTopicsPartitions,
  kBrokerTopicsReplication,
  kRouteStore,
  kRouteBroker,
  kRouteOrder,
  kRouteProfile,
  kRouteSource,
  kRouteTopic,
  kRouteFilterTopics,
  kRouteFilterTypes,
  kRouteFilterTenants,
  kRouteFilterAggregateTypes,
  kRouteRetryPreset,
  kRouteRetryFirst,
  kRouteRetryFactor,
  kRouteRetryMax,
  kRouteRetryJitter,
  kRouteRetryAttempts,
  kRouteDeadLetterTopic,
  kRouteDeadHoldsFollowers,
  kRouteFair,
  kTargetKind,
  kTargetUrl,
  kTargetMethod,
  kTargetTimeout,
  kTargetConnectTimeout,
  kTargetResponseMax,
  kTargetCaFile,
  kTargetInDoubt,
  kTargetConflict,
  kTargetKeyVariable,
  kTargetSettle,
  kTargetRetryPreset,
  kTargetRetryFirst,
  kTargetRetryFactor,
  kTargetRetryMax,
  kTargetRetryJitter,
  kTargetRetryAttempts,
  kTargetConcurrency,
  kTargetBreakerFailures,
  kTargetBreakerFirst,
  kTargetBreakerMax,
  kReceiverPath,
  kReceiverTopic,
  kReceiverTenant,
  kReceiverSignature,
  kReceiverSignatureHeader,
  kReceiverSignaturePrefix,
  kReceiverSignatureEncoding,
  kReceiverTolerance,
  kReceiverSecrets,
  kReceiverIdHeader,
  kReceiverIdField,
  kReceiverType,
  kReceiverTypeHeader,
  kReceiverTypeField,
  kReceiverKeyField,
  kReceiverKeepHeaders,
  kReceiverConflicts,
  kRelayLease,
  kRelaySettleInterval,
  kRelayPollMax,
  kRelayDrainTimeout,
  kRelayMemoryMax,
  kRelayOwner,
  kRelayListen,
  kRelayWake,
  kOutboxProducer,
  kOutboxPayloadMax,
  kOutboxSchemasDir,
  kLogLevel,
  kLogFormat,
};

/// Where a key may stand.
enum class Section : std::uint8_t {
  kProgram,   ///< once: `log.level`
  kStore,     ///< `store.url` for the store named `default`, `stores.NAME.url` for others
  kBroker,    ///< `broker.url`, `brokers.NAME.url`
  kRoute,     ///< `route.NAME.order`; the table has `route.order`
  kTarget,    ///< `target.NAME.url`; likewise
  kReceiver,  ///< `receiver.NAME.topic`; the table has `receiver.topic`
};

enum class KeyType : std::uint8_t {
  kText,
  kStoreUrl,    ///< may carry a password: shown through RedactUrl()
  kBrokerUrl,   ///< likewise
  kHttpUrl,     ///< likewise
  kSchemaName,  ///< a plain SQL identifier
  kName,        ///< of a section of this file
  kNames,       ///< a list of them
  kPath,
  kSecretFile,  ///< a path whose content is a secret; the path itself may be shown
  kDuration,
  kDurationOrNone,  ///< 0 means without limit
  kSize,
  kInteger,  ///< within low and high
  kDecimal,  ///< likewise
  kTruth,
  kChoice,
  kTexts,       ///< a list; the items are separated by commas where there is only text
  kSecretRefs,  ///< a list of file:PATH and env:VARIABLE; what they point to is read by those who need it
  kTemplate,    ///< text with ${...} for fields of an event
  kListen,      ///< HOST:PORT or off
  kWake,        ///< unix:PATH or udp:HOST:PORT
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
  std::int64_t low = 0;           ///< for kInteger and kDecimal
  std::int64_t high = std::numeric_limits<std::int32_t>::max();
};

/// A table of the file whose keys are somebody else's: they are passed on as they are.
struct FreeTable {
  std::string_view name;  ///< `broker.kafka`
  std::string_view doc;   ///< one line
};

std::span<const KeySpec> Keys();
const KeySpec& SpecOf(Key key);
/// Null when there is no such key.
const KeySpec* FindKey(std::string_view name);
Section SectionOf(const KeySpec& spec);
/// Whether there is such a section under names of its own only, and none by default.
inline bool IsAlwaysNamed(Section section) {
  return section == Section::kRoute || section == Section::kTarget || section == Section::kReceiver;
}

std::span<const FreeTable> FreeTables();
inline constexpr std::string_view kKafkaTable = "broker.kafka";
inline constexpr std::string_view kTopicConfigTable = "broker.topics.config";
inline constexpr std::string_view kHttpHeaderTable = "broker.http.headers";
inline constexpr std::string_view kTargetHeaderTable = "target.headers";

/// `store.connect_timeout` is SEALANE_STORE__CONNECT_TIMEOUT; `route.main.order` is SEALANE_ROUTE__MAIN__ORDER.
std::string VariableName(std::string_view key_name);

}  // namespace sealane::cli
