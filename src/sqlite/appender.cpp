#include "sqlite/appender.hpp"

#include <initializer_list>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/fingerprint.hpp"
#include "core/headers_json.hpp"
#include "outbox/refusal.hpp"

namespace sealane::sqlite {
namespace {

// Names of the unique records; the trigger of sealane_emit builds the same fingerprints in SQL.
constexpr std::string_view kFindSql =
    "SELECT event_id FROM sealane_outbox_unique WHERE kind = 'd' AND fingerprint = ?";
constexpr std::string_view kClaimSql =
    "INSERT INTO sealane_outbox_unique (kind, fingerprint, event_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
constexpr std::string_view kInsertSql =
    "INSERT INTO sealane_outbox (event_id, tenant, kind, topic, key, type, schema_version, aggregate_type, "
    "aggregate_id,"
    " aggregate_version, content_type, headers, correlation_id, causation_id, traceparent, tracestate, producer,"
    " schema_id, occurred_at, available_at, payload_hash, payload)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

std::string LengthPrefixed(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += fmt::format("{}:{}", part.size(), part);
  return text;
}

std::string VersionFingerprint(const Envelope& envelope) {
  SEALANE_ASSERT(envelope.aggregate.version.has_value(), "only a given version can be asked to be unique");
  return LengthPrefixed({envelope.tenant, envelope.aggregate.type, envelope.aggregate.id,
                         std::to_string(*envelope.aggregate.version), envelope.type});
}

}  // namespace

Result<Appended> Appender::Append(const NewEntry& entry) {
  std::string dedup_fingerprint;
  if (entry.dedup_key) {
    dedup_fingerprint = LengthPrefixed({entry.envelope.tenant, *entry.dedup_key});
    SEALANE_ASSIGN_OR_RETURN(const auto earlier, FindDedup(dedup_fingerprint));
    if (earlier) return Appended{*earlier, true};
  }
  SEALANE_RETURN_IF_ERROR(ClaimUnique(entry));
  if (entry.dedup_key) {
    SEALANE_RETURN_IF_ERROR(Claim(static_cast<char>(UniqueKind::kDedupKey), dedup_fingerprint, entry.envelope.id));
  }
  SEALANE_RETURN_IF_ERROR(Insert(entry.envelope));
  return Appended{entry.envelope.id, false};
}

Status Appender::ClaimUnique(const NewEntry& entry) {
  const Envelope& envelope = entry.envelope;
  if (entry.own_id) {
    SEALANE_ASSIGN_OR_RETURN(const bool free, Claim(static_cast<char>(UniqueKind::kEventId),
                                                    LengthPrefixed({envelope.id.ToString()}), envelope.id));
    if (!free) return DuplicateEventId(envelope.id);
  }
  if (entry.unique_version) {
    SEALANE_ASSIGN_OR_RETURN(
        const bool free, Claim(static_cast<char>(UniqueKind::kVersion), VersionFingerprint(envelope), envelope.id));
    if (!free) return DuplicateVersion(envelope);
  }
  return Ok();
}

Result<std::optional<EventId>> Appender::FindDedup(const std::string& fingerprint) {
  SEALANE_ASSIGN_OR_RETURN(Statement * find, Use(find_, kFindSql));
  find->Bind(fingerprint);
  SEALANE_ASSIGN_OR_RETURN(const bool found, find->Step());
  if (!found) return std::optional<EventId>();
  const auto id = EventId::Parse(find->Text(0));
  if (!id) return Error(ErrorKind::kCorrupt, "store_corrupt", "a unique record names no event id");
  return id;
}

Result<bool> Appender::Claim(char kind, const std::string& fingerprint, const EventId& id) {
  SEALANE_ASSIGN_OR_RETURN(Statement * claim, Use(claim_, kClaimSql));
  claim->Bind(std::string_view(&kind, 1)).Bind(fingerprint).Bind(id.ToString());
  SEALANE_RETURN_IF_ERROR(claim->Run());
  return sqlite3_changes(connection_) == 1;
}

Status Appender::Insert(const Envelope& envelope) {
  SEALANE_ASSIGN_OR_RETURN(Statement * insert, Use(insert_, kInsertSql));
  insert->Bind(envelope.id.ToString())
      .Bind(envelope.tenant)
      .Bind(ToString(envelope.kind))
      .Bind(envelope.topic)
      .Bind(envelope.key)
      .Bind(envelope.type)
      .Bind(std::int64_t{envelope.schema_version})
      .BindOptional(envelope.aggregate.type)
      .BindOptional(envelope.aggregate.id)
      .BindOptional(envelope.aggregate.version)
      .Bind(envelope.content_type)
      .Bind(HeadersToJson(envelope.headers))
      .BindOptional(envelope.correlation_id)
      .BindOptional(envelope.causation_id)
      .BindOptional(envelope.traceparent)
      .BindOptional(envelope.tracestate)
      .BindOptional(envelope.producer)
      .BindOptional(envelope.schema_id)
      .Bind(envelope.occurred_at)
      .BindOptional(envelope.available_at)
      .BindBlob({reinterpret_cast<const char*>(envelope.payload_hash.data()), envelope.payload_hash.size()})
      .BindBlob(envelope.payload);
  return insert->Run();
}

Result<Statement*> Appender::Use(std::optional<Statement>& slot, std::string_view sql) {
  if (slot) {
    slot->Reset();
  } else {
    SEALANE_ASSIGN_OR_RETURN(slot, Statement::Prepare(connection_, sql));
  }
  return &*slot;
}

}  // namespace sealane::sqlite
