#include "sealane/postgres_sql.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/time_text.hpp"
#include "core/headers_json.hpp"
#include "outbox/refusal.hpp"
#include "postgres/append_call.hpp"
#include "postgres/connection.hpp"
#include "postgres/sql_state.hpp"

namespace sealane {
namespace {

std::int64_t ToInt(const std::optional<std::string>& text) {
  SEALANE_ASSERT(text.has_value(), "this column is never null");
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  SEALANE_ASSERT(error == std::errc{} && end == text->data() + text->size(), "an integer column holds an integer");
  return value;
}

std::string HexParameter(std::string_view bytes) {
  return "\\x" + ToHex({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

/// Null for "not given".
std::optional<std::string> OptionalParameter(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

Result<SqlCall> AppendCall(std::span<const NewEntry> entries, std::string_view schema) {
  SEALANE_ASSIGN_OR_RETURN(const std::string quoted, postgres::QuoteSchema(schema));
  return SqlCall{postgres::AppendSql(quoted), postgres::EncodeAppendText(entries)};
}

std::vector<Appended> ReadAppended(std::span<const NewEntry> entries, const SqlRows& rows) {
  std::vector<Appended> appended;
  appended.reserve(entries.size());
  for (const NewEntry& entry : entries) appended.push_back({entry.envelope.id, false});
  for (const auto& row : rows) {
    const auto place = static_cast<std::size_t>(ToInt(row.at(0)));
    const auto id = EventId::Parse(row.at(1).value_or(""));
    SEALANE_ASSERT(id && place >= 1 && place <= appended.size(), "the server answers about entries it was given");
    appended[place - 1] = {*id, true};
  }
  return appended;
}

Result<SqlCall> NextVersionCall(const AggregateName& aggregate, std::string_view schema) {
  SEALANE_ASSIGN_OR_RETURN(const std::string quoted, postgres::QuoteSchema(schema));
  return SqlCall{fmt::format("SELECT {}.next_version($1, $2, $3)", quoted),
                 {aggregate.tenant, aggregate.type, aggregate.id}};
}

Result<SqlCall> AdvanceVersionCall(const AggregateName& aggregate, std::int64_t expected, std::string_view schema) {
  SEALANE_ASSIGN_OR_RETURN(const std::string quoted, postgres::QuoteSchema(schema));
  return SqlCall{fmt::format("SELECT {}.advance_version($1, $2, $3, $4::int8)", quoted),
                 {aggregate.tenant, aggregate.type, aggregate.id, std::to_string(expected)}};
}

Result<std::int64_t> ReadVersion(const AggregateName& aggregate, std::int64_t expected, const SqlRows& rows) {
  if (rows.empty() || !rows.front().at(0)) {
    return VersionConflict(aggregate, expected, std::nullopt);
  }
  return ToInt(rows.front().at(0));
}

Result<SqlCall> EnsureOnceCall(std::string_view scope, std::string_view key, std::string_view schema) {
  SEALANE_ASSIGN_OR_RETURN(const std::string quoted, postgres::QuoteSchema(schema));
  return SqlCall{fmt::format("SELECT {}.ensure_once($1, $2)::int4", quoted), {std::string(scope), std::string(key)}};
}

bool ReadEnsureOnce(const SqlRows& rows) {
  SEALANE_ASSERT(rows.size() == 1, "the server says whether the key was new");
  return ToInt(rows.front().at(0)) != 0;
}

Result<SqlCall> BeginOnceCall(const IdempotencyClaim& claim, std::string_view schema) {
  SEALANE_ASSIGN_OR_RETURN(const std::string quoted, postgres::QuoteSchema(schema));
  return SqlCall{fmt::format("SELECT state, status, encode(body, 'hex') FROM {}.idempotency_begin($1, $2, $3, "
                             "make_interval(secs => $4::int8), make_interval(secs => $5::int8))",
                             quoted),
                 {claim.tenant, claim.key, claim.request_hash, std::to_string(claim.remember.count()),
                  std::to_string(claim.patience.count())}};
}

Result<IdempotencyOutcome> ReadBeginOnce(const SqlRows& rows) {
  SEALANE_ASSERT(rows.size() == 1, "the server says what became of the claim");
  const auto& row = rows.front();
  const std::string state = row.at(0).value_or("");
  if (state == "new") return IdempotencyOutcome{IdempotencyState::kNew, std::nullopt};
  if (state == "conflict") return IdempotencyOutcome{IdempotencyState::kConflict, std::nullopt};
  if (state == "in_progress") return IdempotencyOutcome{IdempotencyState::kInProgress, std::nullopt};
  SEALANE_ASSERT(state == "replay", "the server knows four states of a claim");
  return IdempotencyOutcome{IdempotencyState::kReplay, StoredResponse{static_cast<std::int32_t>(ToInt(row.at(1))),
                                                                      FromHex(row.at(2).value_or("")).value_or("")}};
}

Result<SqlCall> CompleteOnceCall(const IdempotencyClaim& claim, const StoredResponse& response,
                                 std::string_view schema) {
  SEALANE_ASSIGN_OR_RETURN(const std::string quoted, postgres::QuoteSchema(schema));
  return SqlCall{
      fmt::format("SELECT {}.idempotency_complete($1, $2, $3, $4::int4, $5::bytea)", quoted),
      {claim.tenant, claim.key, claim.request_hash, std::to_string(response.status), HexParameter(response.body)}};
}

Result<SqlCall> EnqueueTaskCall(const NewTask& task, std::string_view schema) {
  SEALANE_ASSIGN_OR_RETURN(const std::string quoted, postgres::QuoteSchema(schema));
  const Task& wish = task.task;
  return SqlCall{
      fmt::format(
          "SELECT task_id, outcome FROM {}.task_enqueue($1::uuid, $2, $3, $4, $5, $6::bytea, $7, $8, $9::json, "
          "$10, $11::timestamptz, $12, $13, $14, $15, $16)",
          quoted),
      {task.id.ToString(), wish.tenant, wish.target, wish.operation, wish.idempotency_key, HexParameter(wish.request),
       task.request_hash, wish.content_type, HeadersToJson(wish.headers), OptionalParameter(wish.order_key),
       wish.not_before ? std::optional(ToRfc3339(*wish.not_before)) : std::nullopt,
       OptionalParameter(wish.correlation_id), OptionalParameter(wish.causation_id),
       OptionalParameter(wish.traceparent), OptionalParameter(wish.result_topic),
       OptionalParameter(wish.result_key)}};
}

Result<EnqueuedTask> ReadEnqueuedTask(const NewTask& task, const SqlRows& rows) {
  SEALANE_ASSERT(rows.size() == 1, "the server says what became of the task");
  const auto id = EventId::Parse(rows.front().at(0).value_or(""));
  SEALANE_ASSERT(id.has_value(), "a task has an id");
  const std::string outcome = rows.front().at(1).value_or("");
  if (outcome == "other") return TaskConflict(task.task, *id);
  return EnqueuedTask{*id, outcome == "there"};
}

Error ErrorFromServer(std::string_view sql_state, std::string_view message) {
  // Client libraries that hide the constraint's name still show the detail line, which carries our code.
  constexpr std::string_view kMark = "code: ";
  std::string constraint;
  if (const std::size_t at = message.find(kMark); sql_state.starts_with("23") && at != std::string_view::npos) {
    const std::string_view rest = message.substr(at + kMark.size());
    constraint = fmt::format("sealane_{}", rest.substr(0, rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz_")));
  }
  // They also pass on the whole report; its first line says what happened.
  std::string_view first = message.substr(0, message.find('\n'));
  constexpr std::string_view kSeverity = "ERROR:";
  if (first.starts_with(kSeverity))
    first.remove_prefix(std::min(first.find_first_not_of(' ', kSeverity.size()), first.size()));
  return postgres::ErrorFromSqlState({.state = sql_state, .message = first, .constraint = constraint});
}

}  // namespace sealane
