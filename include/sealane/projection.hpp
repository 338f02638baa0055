#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sealane/envelope.hpp"
#include "sealane/handler.hpp"
#include "sealane/result.hpp"

namespace sealane {

/// A column of a read model and the value it gets.
using ProjectedColumn = std::pair<std::string, SqlValue>;

/// One row of a read model, as of one event.
struct ProjectedRow {
  std::string table;                 ///< `order_view`, or `shop.order_view`
  std::vector<ProjectedColumn> key;  ///< what the row is found by: the columns of a primary key or unique constraint
  std::vector<ProjectedColumn> set;  ///< the other columns; those that are not named keep what they have
};

/// Writes the row unless it is newer already: an insert, or an update where the row's `source_version` is below the
/// event's aggregate version. Returns whether the row changed. So a projection never goes back, whatever order events
/// come in, and applying one again changes nothing.
///
///     sealane::Project(tx, {.table = "order_view", .key = {{"order_id", event.aggregate.id}},
///                           .set = {{"status", "paid"}}}, event);
///
/// The table has the columns `source_event_id` (text or uuid) and `source_version` (bigint), which this fills, and a
/// unique constraint on exactly the key's columns. A row whose source_version is null counts as older than any event.
///
/// Names are quoted: they are taken exactly as written, case included, and values are parameters. kMisuse
/// (`invalid_projection`) for a name that is empty, longer than 63 bytes, not UTF-8 or has a NUL, for a row without a
/// key, for a column named twice; kRejected (`version_missing`) for an event without an aggregate version. Nothing
/// was written then. Works on PostgreSQL and SQLite.
Result<bool> Project(HandlerTransaction& transaction, const ProjectedRow& row, const Envelope& event);

}  // namespace sealane
