#include "postgres/inbox_statements.hpp"

#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "postgres/binary_format.hpp"
#include "postgres/call.hpp"
#include "postgres/session_settings.hpp"
#include "postgres/sql_state.hpp"

namespace sealane::postgres {
namespace {

constexpr std::uint32_t kUsesUntilPrepared = 3;
constexpr std::size_t kPreparedMax = 200;
constexpr std::size_t kKnownMax = 1'000;
/// Answers that wait to be read take memory on both sides.
constexpr std::size_t kPostedMax = 1'000;
constexpr std::size_t kPostedPerFlush = 16;

constexpr std::string_view kNoSuchStatement = "26000";
constexpr std::string_view kStatementExists = "42P05";
/// Among others: "cached plan must not change result type", after somebody changed a table.
constexpr std::string_view kNotSupported = "0A000";
/// The class of what is wrong with a statement: its syntax, the tables and columns it names, its types.
constexpr std::string_view kSyntaxOrName = "42";
constexpr std::string_view kSyntaxError = "42601";
constexpr std::string_view kNoRight = "42501";

std::string_view StateOf(const PGresult* result) {
  const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  return state == nullptr ? "" : state;
}

/// Of the character with this number, counted from 1, in UTF-8.
std::size_t OffsetOfCharacter(std::string_view text, std::uint64_t number) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0U) != 0x80U;
    if (begins && --number == 0) return at;
  }
  return text.size();
}

Error MustRepeat(std::string_view why) {
  return Error(ErrorKind::kConflict, "statement_not_prepared", fmt::format("a prepared statement is {}", why))
      .WithHint("repeat the transaction; the statement is sent as it is from now on");
}

}  // namespace

Status StatementValues::Assign(std::span<const SqlValue> values) {
  numbers_.clear();
  numbers_.reserve(values.size());
  types_.clear();
  pointers_.clear();
  lengths_.clear();
  formats_.clear();
  letters_.clear();
  const auto add = [this](char letter, Oid type, const char* pointer, std::size_t length, int format) {
    letters_ += letter;
    types_.push_back(type);
    pointers_.push_back(pointer);
    lengths_.push_back(static_cast<int>(length));
    formats_.push_back(format);
  };
  for (const SqlValue& value : values) {
    if (const auto* text = std::get_if<std::string>(&value)) {
      if (text->find('\0') != std::string::npos) {
        return Error(ErrorKind::kRejected, "nul_in_text", "a text parameter of a handler's statement has a NUL")
            .WithHint("no database text can hold a NUL; pass such bytes as SqlBytes");
      }
      // A text has no type of its own: the server reads it as what it needs there.
      add('t', 0, text->c_str(), 0, 0);
    } else if (const auto* number = std::get_if<std::int64_t>(&value)) {
      add('n', kInt8, numbers_.emplace_back(BigEndian(*number)).data(), sizeof *number, 1);
    } else if (const auto* bytes = std::get_if<SqlBytes>(&value)) {
      add('b', kBytea, bytes->bytes.data(), bytes->bytes.size(), 1);
    } else {
      add('t', 0, nullptr, 0, 0);
    }
  }
  return Ok();
}

Result<std::optional<StatementFault>> ExamineStatement(PGconn* connection, const std::string& sql,
                                                       std::span<const SqlValue> values) {
  StatementValues given;
  SEALANE_RETURN_IF_ERROR(given.Assign(values));
  const PgResult result(PQprepare(connection, "", sql.c_str(), given.count(), given.types()));
  const Status prepared = CheckResult(connection, result.get());
  if (prepared) return std::optional<StatementFault>();
  const std::string_view state = StateOf(result.get());
  if (!state.starts_with(kSyntaxOrName) || state == kNoRight) return prepared.error();
  StatementFault fault{.error = prepared.error(), .is_syntax = state == kSyntaxError};
  if (const char* const position = PQresultErrorField(result.get(), PG_DIAG_STATEMENT_POSITION)) {
    fault.offset = OffsetOfCharacter(sql, std::strtoull(position, nullptr, 10));
  }
  return std::optional(std::move(fault));
}

Result<PgResult> InboxStatements::Run(PGconn* connection, const std::string& sql, std::span<const SqlValue> values) {
  SEALANE_RETURN_IF_ERROR(given_.Assign(values));
  Statement* const statement = Find(connection, sql);
  if (statement != nullptr && statement->name.empty()) {
    SEALANE_RETURN_IF_ERROR(Prepare(connection, sql, *statement));
  }
  if (statement == nullptr) {
    PgResult result(PQexecParams(connection, sql.c_str(), given_.count(), given_.types(), given_.pointers(),
                                 given_.lengths(), given_.formats(), 0));
    SEALANE_RETURN_IF_ERROR(CheckResult(connection, result.get()));
    return result;
  }
  PgResult result(PQexecPrepared(connection, statement->name.c_str(), given_.count(), given_.pointers(),
                                 given_.lengths(), given_.formats(), 0));
  if (!CheckResult(connection, result.get())) return Judge(connection, result.get(), *statement);
  return result;
}

Status InboxStatements::Post(PGconn* connection, const std::string& sql, std::span<const SqlValue> values) {
  SEALANE_RETURN_IF_ERROR(given_.Assign(values));
  Statement* const statement = Find(connection, sql);
  if (statement != nullptr && statement->name.empty()) {
    SEALANE_RETURN_IF_ERROR(Settle(connection));
    SEALANE_RETURN_IF_ERROR(Prepare(connection, sql, *statement));
  }
  if (posted_.size() >= kPostedMax) SEALANE_RETURN_IF_ERROR(Settle(connection));
  if (posted_.empty() && PQenterPipelineMode(connection) != 1) return SendError(connection);
  const int sent = statement == nullptr
                       ? PQsendQueryParams(connection, sql.c_str(), given_.count(), given_.types(), given_.pointers(),
                                           given_.lengths(), given_.formats(), 0)
                       : PQsendQueryPrepared(connection, statement->name.c_str(), given_.count(), given_.pointers(),
                                             given_.lengths(), given_.formats(), 0);
  if (sent != 1) {
    Error error = SendError(connection);
    if (posted_.empty()) PQexitPipelineMode(connection);
    return error;
  }
  posted_.push_back(statement);
  // Left to itself libpq gathers 64 KiB, and the server has nothing to do meanwhile.
  if (posted_.size() % kPostedPerFlush == 0 && PQflush(connection) < 0) return SendError(connection);
  return Ok();
}

Status InboxStatements::Settle(PGconn* connection) {
  if (posted_.empty()) return Ok();
  PipelineReport report = EndPipeline(connection, posted_.size());
  const std::vector<Statement*> posted = std::exchange(posted_, {});
  if (!report.error) return Ok();
  Statement* const failed = report.refused ? posted.at(report.results.size()) : nullptr;
  if (failed != nullptr) return Judge(connection, report.refusal.get(), *failed);
  return *std::move(report.error);
}

bool InboxStatements::IsLast(const std::string& sql) const {
  if (last_ == nullptr) return false;
  const std::string_view key = last_->first;
  const std::string& letters = given_.letters();
  return key.size() == letters.size() + 1 + sql.size() && key.starts_with(letters) && key[letters.size()] == ':' &&
         key.ends_with(sql);
}

InboxStatements::Statement* InboxStatements::Look(const std::string& sql) {
  if (IsLast(sql)) return &last_->second;
  std::string key = given_.letters() + ':' + sql;
  auto found = statements_.find(key);
  if (found == statements_.end()) {
    // What was not prepared by now is likely to be of the kind that comes once.
    if (statements_.size() >= kKnownMax) {
      last_ = nullptr;
      std::erase_if(statements_, [](const auto& entry) { return entry.second.name.empty() && !entry.second.plain; });
    }
    if (statements_.size() >= kKnownMax) return nullptr;
    found = statements_.emplace(std::move(key), Statement{}).first;
  }
  last_ = &*found;
  return &found->second;
}

InboxStatements::Statement* InboxStatements::Find(const PGconn* connection, const std::string& sql) {
  if (!prepares_ || IsPooled(connection)) return nullptr;
  Statement* const statement = Look(sql);
  if (statement == nullptr || statement->plain) return nullptr;
  if (!statement->name.empty()) return statement;
  if (++statement->uses < kUsesUntilPrepared || prepared_ >= kPreparedMax) return nullptr;
  return statement;
}

Status InboxStatements::Prepare(PGconn* connection, const std::string& sql, Statement& statement) {
  // By its content: whoever meets the name in a session that is not its own meets the same statement.
  const auto digest = Sha256(given_.letters() + ":" + sql);
  std::string name = "sealane_handler_" + ToHex(std::span(digest).first(16));
  const PgResult result(PQprepare(connection, name.c_str(), sql.c_str(), given_.count(), given_.types()));
  if (!CheckResult(connection, result.get())) return Judge(connection, result.get(), statement);
  ++prepared_;
  statement.name = std::move(name);
  return Ok();
}

Error InboxStatements::Judge(PGconn* connection, const PGresult* result, Statement& statement) {
  const std::string_view state = StateOf(result);
  if (state == kNoSuchStatement || state == kStatementExists) {
    prepares_ = false;
    return MustRepeat("not what this connection had prepared");
  }
  if (state == kNotSupported) {
    statement.plain = true;
    return MustRepeat("not to be used any more");
  }
  return CheckResult(connection, result).error();
}

}  // namespace sealane::postgres
