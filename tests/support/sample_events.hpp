#pragma once

#include <string>
#include <string_view>

#include "sealane/event_id.hpp"
#include "sealane/transaction.hpp"

namespace sealane::testing {

EventId FreshId();

/// An admitted event with the required fields only, with a fresh id that the store need not watch.
NewEntry SampleEntry(std::string_view key = "o-1");
/// Every field set, each to another value.
NewEntry FullEntry();

/// The entry with another payload and the hash that belongs to it.
NewEntry WithPayload(NewEntry entry, std::string payload, std::string_view content_type = "application/octet-stream");
/// The entry about version `version` of order `id`, refused when there is one already.
NewEntry AboutVersion(NewEntry entry, std::string_view id, std::int64_t version);
NewEntry WithDedupKey(NewEntry entry, std::string_view dedup_key);
NewEntry OfTenant(NewEntry entry, std::string_view tenant);
/// The entry with an id its caller chose, refused when it exists already.
NewEntry WithOwnId(NewEntry entry, const EventId& id);

}  // namespace sealane::testing
