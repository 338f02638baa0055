#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/result.hpp"
#include "sealane/transaction.hpp"

namespace sealane {

/// One statement for a PostgreSQL client that is not libpq itself: text with $1, $2, ... and parameters in text form.
///
/// For adapters (sealane/pqxx.hpp is one): run it in the open transaction, hand the rows to the matching reader
/// below.
struct SqlCall {
  std::string text;
  std::vector<std::optional<std::string>> parameters;
};
/// Rows in text form; empty for null.
using SqlRows = std::vector<std::vector<std::optional<std::string>>>;

Result<SqlCall> AppendCall(std::span<const NewEntry> entries, std::string_view schema = "sealane");
std::vector<Appended> ReadAppended(std::span<const NewEntry> entries, const SqlRows& rows);

Result<SqlCall> NextVersionCall(const AggregateName& aggregate, std::string_view schema = "sealane");
Result<SqlCall> AdvanceVersionCall(const AggregateName& aggregate, std::int64_t expected,
                                   std::string_view schema = "sealane");
/// For both: `version_conflict` when the row holds null, which NextVersionCall() never does.
Result<std::int64_t> ReadVersion(const AggregateName& aggregate, std::int64_t expected, const SqlRows& rows);

Result<SqlCall> EnsureOnceCall(std::string_view scope, std::string_view key, std::string_view schema = "sealane");
bool ReadEnsureOnce(const SqlRows& rows);

Result<SqlCall> BeginOnceCall(const IdempotencyClaim& claim, std::string_view schema = "sealane");
/// The body column comes as hex text.
Result<IdempotencyOutcome> ReadBeginOnce(const SqlRows& rows);
Result<SqlCall> CompleteOnceCall(const IdempotencyClaim& claim, const StoredResponse& response,
                                 std::string_view schema = "sealane");

Result<SqlCall> EnqueueTaskCall(const NewTask& task, std::string_view schema = "sealane");
Result<EnqueuedTask> ReadEnqueuedTask(const NewTask& task, const SqlRows& rows);

/// The error for a statement that the server refused: SQLSTATE and message as the client library reports them.
Error ErrorFromServer(std::string_view sql_state, std::string_view message);

}  // namespace sealane
