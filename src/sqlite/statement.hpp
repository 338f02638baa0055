#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sqlite3.h>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

namespace sealane::sqlite {

/// The time of the machine in SQL, as it is stored: microseconds since 1970 (SQLite counts milliseconds).
inline constexpr std::string_view kNowSql =
    "(CAST(strftime('%s','now') AS INTEGER)*1000000+CAST(substr(strftime('%f','now'),4,3) AS INTEGER)*1000)";

/// A prepared statement. Values are bound in order, then it is stepped; Reset() makes it ready for the next values.
///
///     statement.Bind(tenant).Bind(limit);
///     SEALANE_ASSIGN_OR_RETURN(const bool found, statement.Step());
///
/// Lives on the thread of its connection and must end before it.
class Statement {
 public:
  /// Takes the first statement of the text; `rest`, when asked for, is what follows it.
  static Result<Statement> Prepare(sqlite3* connection, std::string_view sql, std::string_view* rest = nullptr);

  /// The text was white space or a comment.
  bool is_empty() const { return handle_ == nullptr; }
  /// The largest number of a parameter.
  int parameters() const { return sqlite3_bind_parameter_count(handle_.get()); }
  int columns() const { return sqlite3_column_count(handle_.get()); }

  /// A value that does not fit is reported by the next Step().
  Statement& Bind(std::int64_t value);
  Statement& Bind(std::string_view text);
  Statement& Bind(Timestamp time);
  Statement& BindNull();
  /// Null when empty: how the tables hold "not given".
  Statement& BindOptional(std::string_view text);
  template <class T>
  Statement& BindOptional(const std::optional<T>& value) {
    return value ? Bind(*value) : BindNull();
  }
  /// Not copied: the bytes must stay until the statement was stepped.
  Statement& BindBlob(std::string_view bytes);

  /// True when there is a row.
  Result<bool> Step();
  /// Steps to the end and resets.
  Status Run();
  void Reset();

  bool IsNull(int column) const;
  std::int64_t Int(int column) const;
  std::string Text(int column) const;  ///< empty for null
  std::string Blob(int column) const;  ///< empty for null

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  explicit Statement(sqlite3_stmt* handle) : handle_(handle) {}
  Statement& Note(int result);

  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  int bound_ = 0;
  int bind_failure_ = SQLITE_OK;
};

/// Reads the columns of a statement's row from left to right.
class RowReader {
 public:
  explicit RowReader(const Statement& statement) : statement_(statement) {}

  std::int64_t Int() { return statement_.Int(at_++); }
  std::string Text() { return statement_.Text(at_++); }
  std::string Blob() { return statement_.Blob(at_++); }
  Timestamp Time() { return Timestamp{std::chrono::microseconds{Int()}}; }
  std::optional<std::int64_t> OptionalInt();
  std::optional<Timestamp> OptionalTime();
  std::optional<std::string> OptionalBlob();

 private:
  const Statement& statement_;
  int at_ = 0;
};

/// Runs statements that answer nothing.
Status Execute(sqlite3* connection, const std::string& sql);

}  // namespace sealane::sqlite
