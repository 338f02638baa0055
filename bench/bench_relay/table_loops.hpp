#pragma once

#include <cstddef>
#include <string>

namespace sealane::bench {

// What others do with the same rows. Each opens its own connection, reads all `events` rows and returns events per
// second, connecting included.

/// All rows and the columns that the relay reads, as a binary result in single-row mode.
double ReadBySelect(const std::string& url, std::size_t events);
/// The same by binary COPY.
double ReadByCopy(const std::string& url, std::size_t events);

/// The outbox relay that is in most textbooks, on FillReferenceTable()'s rows, to a destination that costs nothing:
/// lock the next 500 pending rows with SKIP LOCKED, publish, set their status with one UPDATE, commit. One worker.
double PublishBySkipLocked(const std::string& url, std::size_t events);

}  // namespace sealane::bench
