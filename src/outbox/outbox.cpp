#include "sealane/outbox.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/sha256.hpp"

namespace sealane {

Outbox::Outbox(OutboxOptions options)
    : Outbox(std::move(options), SystemClock::Instance(), EventIdGenerator::Instance()) {}

Outbox::Outbox(OutboxOptions options, Clock& clock, EventIdGenerator& ids)
    : options_(std::move(options)), clock_(clock), ids_(ids) {}

Result<NewEntry> Outbox::Admit(const Event& event) const {
  NewEntry entry{
      .envelope =
          {
              .id = event.id ? *event.id : ids_.Next(),
              .kind = event.kind,
              .type = event.type,
              .schema_version = event.schema_version,
              .tenant = event.tenant,
              .topic = event.topic,
              .key = event.key,
              .aggregate = event.aggregate,
              .correlation_id = event.correlation_id,
              .causation_id = event.causation_id,
              .traceparent = event.traceparent,
              .tracestate = event.tracestate,
              .producer = event.producer.empty() ? options_.producer : event.producer,
              .schema_id = event.schema_id,
              .content_type = event.content_type,
              .headers = event.headers,
              .occurred_at = event.occurred_at ? *event.occurred_at : clock_.Now(),
              .available_at = event.available_at,
              .payload = event.payload,
              .payload_hash = Sha256(event.payload),
              .unknown = {},
          },
      .own_id = event.id.has_value(),
      .unique_version = event.unique_version && event.aggregate.version.has_value(),
      .dedup_key = event.dedup_key,
  };
  SEALANE_RETURN_IF_ERROR(CheckAdmission(entry.envelope, options_.limits));
  SEALANE_RETURN_IF_ERROR(CheckDedupKey(entry.dedup_key, options_.limits));
  if (options_.schema_check != nullptr) SEALANE_RETURN_IF_ERROR(options_.schema_check->Check(entry.envelope));
  return entry;
}

Result<Appended> Outbox::Append(TransactionRef transaction, const Event& event) const {
  SEALANE_ASSIGN_OR_RETURN(const NewEntry entry, Admit(event));
  SEALANE_ASSIGN_OR_RETURN(const std::vector<Appended> appended, transaction->Append({&entry, 1}));
  SEALANE_ASSERT(appended.size() == 1, "a store answers for every entry it was given");
  return appended.front();
}

Result<std::vector<Appended>> Outbox::AppendAll(TransactionRef transaction, std::span<const Event> events) const {
  if (events.size() > options_.batch_events_max) {
    return Error(
               ErrorKind::kRejected, "batch_too_large",
               fmt::format("{} events in one batch, at most {} are taken", events.size(), options_.batch_events_max))
        .WithHint("append in several batches; they commit together in the same transaction");
  }
  std::vector<NewEntry> entries;
  entries.reserve(events.size());
  std::size_t bytes = 0;
  for (const Event& event : events) {
    auto entry = Admit(event);
    if (!entry) {
      return std::move(entry).error().WithContext(
          fmt::format("in event {} of {}", entries.size() + 1, events.size()));
    }
    bytes += entry->envelope.payload.size();
    if (bytes > options_.batch_bytes_max) {
      return Error(ErrorKind::kRejected, "batch_too_large",
                   fmt::format("more than {} payload bytes in one batch", options_.batch_bytes_max))
          .WithHint("append in several batches; they commit together in the same transaction");
    }
    entries.push_back(*std::move(entry));
  }
  // Asked even for an empty batch, so that a missing transaction never goes unnoticed.
  return transaction->Append(entries);
}

}  // namespace sealane
