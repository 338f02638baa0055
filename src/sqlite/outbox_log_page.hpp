#pragma once

#include <cstddef>
#include <string_view>

#include <sqlite3.h>

#include "outbox/outbox_log.hpp"

namespace sealane::sqlite {

/// The columns of sealane_outbox, named `o` in the statement, that PageBuilder reads.
inline constexpr std::string_view kEntryColumns =
    "o.seq, o.event_id, o.kind, o.schema_version, o.aggregate_version, o.occurred_at, o.available_at, o.appended_at,"
    " o.type, o.tenant, o.topic, o.key, o.aggregate_type, o.aggregate_id, o.correlation_id, o.causation_id,"
    " o.traceparent, o.tracestate, o.producer, o.schema_id, o.content_type, o.headers, o.payload, o.payload_hash";

/// Fills a page from rows: their bytes are copied into a few large blocks, which the entries point into.
class PageBuilder {
 public:
  explicit PageBuilder(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Adds the row that `row` stands on, its kEntryColumns beginning at `first_column`. False, and nothing added, when
  /// the page would grow beyond its limit; the first row is always taken.
  Result<bool> Add(sqlite3_stmt* row, int first_column);

  bool empty() const { return page_.entries.empty(); }
  std::size_t size() const { return page_.entries.size(); }
  std::int64_t last_seq() const { return page_.entries.back().seq; }
  /// The page without a position.
  Page Finish() &&;

 private:
  class Blocks;
  /// Room for that many bytes inside the limit; null when there is none.
  char* Take(std::size_t size);

  std::size_t bytes_max_;
  std::size_t allocated_ = 0;
  char* free_begin_ = nullptr;
  std::size_t free_size_ = 0;
  Page page_;
};

}  // namespace sealane::sqlite
