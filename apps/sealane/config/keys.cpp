#include "config/keys.hpp"

#include <algorithm>
#include <array>

namespace sealane::cli {
namespace {

using enum KeyType;

constexpr std::array<KeySpec, 84> kKeys = {{
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
     "Whether `sealane migrate up` makes the writer, relay, consumer and operator roles."},

    {Key::kBrokerUrl, "broker.url", kBrokerUrl, "", false,
     "Where events go: kafka://host:port,host:port, journal:PATH, http://..., https://..., stdout: or null:."},
    {Key::kBrokerHttpTimeout, "broker.http.timeout", kDuration, "30s", false,
     "How long an HTTP destination may take for one event."},
    {Key::kBrokerHttpCaFile, "broker.http.ca_file", kPath, "", false,
     "Certificates to trust, in PEM; not set: the system's."},
    {Key::kBrokerJournalPartitions,
     "broker.journal.partitions",
     kInteger,
     "16",
     false,
     "Partitions of a journal topic that is made new.",
     {},
     1,
     1024},
    {Key::kBrokerJournalRetention, "broker.journal.retention", kDurationOrNone, "7d", false,
     "How long a journal keeps messages; those that a group of readers has not acknowledged stay. 0 is for ever."},
    {Key::kBrokerTopicsCreate, "broker.topics.create", kTruth, "false", false,
     "Whether the relay makes Kafka topics that are missing; otherwise their events wait until they are there."},
    {Key::kBrokerTopicsPartitions,
     "broker.topics.partitions",
     kInteger,
     "0",
     false,
     "Partitions of a Kafka topic that the relay makes; 0: as many as the brokers choose.",
     {},
     0,
     10'000},
    {Key::kBrokerTopicsReplication,
     "broker.topics.replication",
     kInteger,
     "0",
     false,
     "Replicas of a Kafka topic that the relay makes; 0: as many as the brokers choose.",
     {},
     0,
     100},

    {Key::kRouteStore, "route.store", kNames, "default", false, "The stores this route reads; each runs on its own."},
    {Key::kRouteBroker, "route.broker", kName, "default", false, "The broker it publishes to."},
    {Key::kRouteOrder, "route.order", kChoice, "key", false,
     "Which events keep their order among each other, and wait for each other when one fails.",
     "key|tenant|global|none"},
    {Key::kRouteProfile, "route.profile", kChoice, "envelope", false, "The form of a message (docs/envelope.md).",
     "envelope|cloudevents|cloudevents-structured|debezium|raw"},
    {Key::kRouteSource, "route.source", kText, "", false,
     "The CloudEvents source; not set: /sealane/ and the event's producer."},
    {Key::kRouteTopic, "route.topic", kTemplate, "", false,
     "Template of the broker's topic, with ${topic}, ${type}, ${tenant}, ${aggregate_type} and ${kind}; not set: the "
     "event's own topic."},
    {Key::kRouteFilterTopics, "route.filter.topics", kTexts, "", false,
     "Only events of these topics; `*` stands for anything. What does not pass a filter is done at once."},
    {Key::kRouteFilterTypes, "route.filter.types", kTexts, "", false, "Only events of these types."},
    {Key::kRouteFilterTenants, "route.filter.tenants", kTexts, "", false, "Only events of these tenants."},
    {Key::kRouteFilterAggregateTypes, "route.filter.aggregate_types", kTexts, "", false,
     "Only events about these kinds of aggregate."},
    {Key::kRouteRetryPreset, "route.retry.preset", kChoice, "patient", false,
     "How often an event that fails is tried again: patient (1s to 5m, 10 attempts), brief (100ms to 1.6s, 5), "
     "payments "
     "(1s to 1h, 12). The keys below change single values of it.",
     "patient|brief|payments"},
    {Key::kRouteRetryFirst, "route.retry.first", kDuration, "", false, "The wait before the second attempt."},
    {Key::kRouteRetryFactor,
     "route.retry.factor",
     kDecimal,
     "",
     false,
     "Each further wait is this much longer.",
     {},
     1,
     100},
    {Key::kRouteRetryMax, "route.retry.max", kDuration, "", false, "No wait is longer."},
    {Key::kRouteRetryJitter,
     "route.retry.jitter",
     kDecimal,
     "",
     false,
     "A wait is shortened at random by up to this share.",
     {},
     0,
     1},
    {Key::kRouteRetryAttempts,
     "route.retry.attempts",
     kInteger,
     "",
     false,
     "After this many an event is dead and waits for a person; 0 is without limit.",
     {},
     0,
     1'000'000},
    {Key::kRouteDeadLetterTopic, "route.dead_letter_topic", kText, "", false, "Dead events are published here too."},
    {Key::kRouteDeadHoldsFollowers, "route.dead_holds_followers", kTruth, "true", false,
     "Whether events of the same key wait behind a dead one."},
    {Key::kRouteFair, "route.fair", kTruth, "true", false,
     "Whether a tenant with a long backlog leaves room for the others."},

    {Key::kTargetKind, "target.kind", kChoice, "http", false,
     "What takes the tasks of this target: http (one request per attempt) or workflow (starts process instances, "
     "Camunda 8).",
     "http|workflow"},
    {Key::kTargetUrl, "target.url", kHttpUrl, "", false,
     "Where it is. A task's operation is a path below it, or a process id."},
    {Key::kTargetMethod, "target.method", kChoice, "POST", false, "How tasks are sent to an HTTP target.",
     "POST|PUT|PATCH|DELETE"},
    {Key::kTargetTimeout, "target.timeout", kDuration, "30s", false,
     "How long one request may take, connecting included."},
    {Key::kTargetConnectTimeout, "target.connect_timeout", kDuration, "5s", false,
     "How long to wait for a connection."},
    {Key::kTargetResponseMax, "target.response_max", kSize, "64KiB", false, "How much of a response is kept."},
    {Key::kTargetCaFile, "target.ca_file", kPath, "", false, "Certificates to trust, in PEM; not set: the system's."},
    {Key::kTargetInDoubt, "target.in_doubt", kChoice, "resend", false,
     "An attempt that may have taken effect: resend it with the same key, or hold it for a person (for targets that "
     "keep no keys).",
     "resend|hold"},
    {Key::kTargetConflict, "target.conflict", kChoice, "refused", false, "What an answer of 409 means for a task.",
     "refused|retry|success"},
    {Key::kTargetKeyVariable, "target.key_variable", kText, "businessKey", false,
     "The process variable that holds a task's key; for workflow targets."},
    {Key::kTargetSettle, "target.settle", kDuration, "10s", false,
     "How long a workflow target may need until a search finds an instance that was started."},
    {Key::kTargetRetryPreset, "target.retry.preset", kChoice, "patient", false,
     "How often a task that fails is tried again: as route.NAME.retry.preset. The keys below change single values.",
     "patient|brief|payments"},
    {Key::kTargetRetryFirst, "target.retry.first", kDuration, "", false, "The wait before the second attempt."},
    {Key::kTargetRetryFactor,
     "target.retry.factor",
     kDecimal,
     "",
     false,
     "Each further wait is this much longer.",
     {},
     1,
     100},
    {Key::kTargetRetryMax, "target.retry.max", kDuration, "", false, "No wait is longer."},
    {Key::kTargetRetryJitter,
     "target.retry.jitter",
     kDecimal,
     "",
     false,
     "A wait is shortened at random by up to this share.",
     {},
     0,
     1},
    {Key::kTargetRetryAttempts,
     "target.retry.attempts",
     kInteger,
     "",
     false,
     "After this many a task is dead and waits for a person; 0 is without limit.",
     {},
     0,
     1'000'000},
    {Key::kTargetConcurrency,
     "target.concurrency",
     kInteger,
     "0",
     false,
     "Attempts side by side at this target, at most; 0 is as many as --workers. While several targets have tasks, "
     "each "
     "gets its share of the workers.",
     {},
     0,
     256},
    {Key::kTargetBreakerFailures,
     "target.breaker.failures",
     kInteger,
     "5",
     false,
     "After so many attempts in a row that found the target down, its tasks wait until a probe succeeds (circuit "
     "breaker); 0 is never.",
     {},
     0,
     1'000'000},
    {Key::kTargetBreakerFirst, "target.breaker.first", kDuration, "1s", false,
     "The wait before the first probe; it doubles with every probe that fails."},
    {Key::kTargetBreakerMax, "target.breaker.max", kDuration, "1m", false, "No wait before a probe is longer."},
    {Key::kReceiverPath, "receiver.path", kText, "", false,
     "Where the provider posts its deliveries; not set: /hooks/ and the receiver's name."},
    {Key::kReceiverTopic, "receiver.topic", kText, "", false, "The topic of the events that deliveries become."},
    {Key::kReceiverTenant, "receiver.tenant", kText, "", false, "Their tenant."},
    {Key::kReceiverSignature, "receiver.signature", kChoice, "", false,
     "How the provider signs (docs/receive.md); none believes everybody who reaches the port. Must be set.",
     "github|stripe|hmac|timestamped|none"},
    {Key::kReceiverSignatureHeader, "receiver.signature_header", kText, "", false, "The header with the signature."},
    {Key::kReceiverSignaturePrefix, "receiver.signature_prefix", kText, "", false,
     "What stands in front of the signature in its header, for example `sha256=`."},
    {Key::kReceiverSignatureEncoding, "receiver.signature_encoding", kChoice, "hex", false,
     "How the signature is written.", "hex|base64"},
    {Key::kReceiverTolerance, "receiver.tolerance", kDuration, "5m", false,
     "How far the time in a timestamped signature may be from ours."},
    {Key::kReceiverSecrets, "receiver.secrets", kSecretRefs, "", false,
     "Where the secrets are, any of which may have signed: file:PATH or env:VARIABLE."},
    {Key::kReceiverIdHeader, "receiver.id_header", kText, "", false, "The header with the event's id."},
    {Key::kReceiverIdField, "receiver.id_field", kText, "", false,
     "The member of the JSON body with the event's id, for example data.id; neither set: the SHA-256 of the body."},
    {Key::kReceiverType, "receiver.type", kText, "", false,
     "The type of events that do not say theirs; not set: the receiver's name, where no other place is named."},
    {Key::kReceiverTypeHeader, "receiver.type_header", kText, "", false, "The header with the event's type."},
    {Key::kReceiverTypeField, "receiver.type_field", kText, "", false,
     "The member of the JSON body with the event's type."},
    {Key::kReceiverKeyField, "receiver.key_field", kText, "", false,
     "The member of the JSON body with the ordering key; not set, or not there: the event's id."},
    {Key::kReceiverKeepHeaders, "receiver.keep_headers", kTexts, "", false,
     "Headers of the delivery that become headers of the event."},
    {Key::kReceiverConflicts, "receiver.conflicts", kChoice, "refuse", false,
     "What to answer to a known id with another body: refuse (409) or accept (200). Both count it; neither makes a "
     "second event.",
     "refuse|accept"},

    {Key::kRelayLease, "relay.lease", kDuration, "10s", false,
     "The work of a relay that died is taken over after this."},
    {Key::kRelaySettleInterval, "relay.settle_interval", kDuration, "250ms", false,
     "Progress is written at most this often; what was not is sent again after a crash."},
    {Key::kRelayPollMax, "relay.poll_max", kDuration, "400ms", false,
     "The longest wait between looks at an idle log."},
    {Key::kRelayDrainTimeout, "relay.drain_timeout", kDuration, "10s", false,
     "At a stop, how long to wait for messages that are on their way."},
    {Key::kRelayMemoryMax, "relay.memory_max", kSize, "20MiB", false,
     "Memory per route for events that were read and are not settled."},
    {Key::kRelayOwner, "relay.owner", kText, "", false,
     "Start of the relay's name in leases and logs; a random part is added. Not set: the host's name and process "
     "id."},
    {Key::kRelayListen, "relay.listen", kListen, "127.0.0.1:9464", false,
     "Where /livez, /readyz and /metrics are served: HOST:PORT, or off."},
    {Key::kRelayWake, "relay.wake", kWake, "", false,
     "Where writers ring after a commit, so that the relay looks at once: unix:PATH or udp:HOST:PORT."},

    {Key::kOutboxProducer, "outbox.producer", kText, "", false, "Name of this service, for events that carry none."},
    {Key::kOutboxPayloadMax, "outbox.payload_max", kSize, "900KiB", false, "The largest payload that is accepted."},
    {Key::kOutboxSchemasDir, "outbox.schemas_dir", kPath, "", false,
     "Folder of JSON Schemas named TYPE.vVERSION.json; payloads of those types must fit."},
    {Key::kLogLevel, "log.level", kChoice, "info", false, "The least important lines to log.",
     "debug|info|warning|error"},
    {Key::kLogFormat, "log.format", kChoice, "text", false, "Log lines for people, or one JSON object per line.",
     "text|json"},
}};

constexpr std::array<FreeTable, 4> kFreeTables = {{
    {kKafkaTable, "Any property of librdkafka, for example `\"security.protocol\" = \"SASL_SSL\"`."},
    {kTopicConfigTable,
     "Settings of Kafka topics that the relay makes, for example `\"retention.ms\" = \"86400000\"`."},
    {kHttpHeaderTable, "Headers that every request to an HTTP destination carries; never shown."},
    {kTargetHeaderTable, "Headers that every request to this target carries; never shown."},
}};

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

Section SectionOf(const KeySpec& spec) {
  if (spec.name.starts_with("store.")) return Section::kStore;
  if (spec.name.starts_with("broker.")) return Section::kBroker;
  if (spec.name.starts_with("route.")) return Section::kRoute;
  if (spec.name.starts_with("target.")) return Section::kTarget;
  if (spec.name.starts_with("receiver.")) return Section::kReceiver;
  return Section::kProgram;
}

std::span<const FreeTable> FreeTables() {
  return kFreeTables;
}

std::string VariableName(std::string_view key_name) {
  std::string name = "SEALANE_";
  for (const char c : key_name) {
    if (c == '.') {
      name += "__";
    } else {
      name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
  }
  return name;
}

}  // namespace sealane::cli
