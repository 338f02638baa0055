#pragma once

#include <cstddef>
#include <string>

#include "common/session.hpp"

namespace sealane::bench {

/// The schema of the outbox, and the one of the reference table.
inline constexpr const char* kSchema = "sealane";
inline constexpr const char* kReferenceSchema = "reference";

/// Installs the outbox and fills it: JSON payloads of 300 bytes, 5,000 keys, every column filled that a service with
/// tracing fills. Half of a payload is hexadecimal noise, so that it compresses as business data does.
void FillOutbox(const Session& session, const std::string& url, std::size_t events);

/// A copy of the same rows in a plain table with a status column, all of them pending.
void FillReferenceTable(const Session& session);

}  // namespace sealane::bench
