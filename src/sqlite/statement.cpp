#include "sqlite/statement.hpp"

#include "sqlite/sqlite_error.hpp"

namespace sealane::sqlite {

Result<Statement> Statement::Prepare(sqlite3* connection, std::string_view sql, std::string_view* rest) {
  sqlite3_stmt* handle = nullptr;
  const char* tail = nullptr;
  if (sqlite3_prepare_v2(connection, sql.data(), static_cast<int>(sql.size()), &handle, &tail) != SQLITE_OK) {
    return LastError(connection);
  }
  if (rest != nullptr) *rest = sql.substr(static_cast<std::size_t>(tail - sql.data()));
  return Statement(handle);
}

Statement& Statement::Note(int result) {
  if (result != SQLITE_OK && bind_failure_ == SQLITE_OK) bind_failure_ = result;
  return *this;
}

Statement& Statement::Bind(std::int64_t value) {
  return Note(sqlite3_bind_int64(handle_.get(), ++bound_, value));
}

Statement& Statement::Bind(std::string_view text) {
  // A null pointer would bind SQL's null.
  const char* const data = text.empty() ? "" : text.data();
  return Note(sqlite3_bind_text64(handle_.get(), ++bound_, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

Statement& Statement::Bind(Timestamp time) {
  return Bind(std::int64_t{time.time_since_epoch().count()});
}

Statement& Statement::BindNull() {
  return Note(sqlite3_bind_null(handle_.get(), ++bound_));
}

Statement& Statement::BindOptional(std::string_view text) {
  return text.empty() ? BindNull() : Bind(text);
}

Statement& Statement::BindBlob(std::string_view bytes) {
  const char* const data = bytes.empty() ? "" : bytes.data();
  return Note(sqlite3_bind_blob64(handle_.get(), ++bound_, data, bytes.size(), SQLITE_STATIC));
}

Result<bool> Statement::Step() {
  if (bind_failure_ != SQLITE_OK) return ErrorFromSqlite(bind_failure_, sqlite3_errstr(bind_failure_));
  switch (sqlite3_step(handle_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return LastError(sqlite3_db_handle(handle_.get()));
  }
}

Status Statement::Run() {
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) break;
  }
  Reset();
  return Ok();
}

void Statement::Reset() {
  sqlite3_reset(handle_.get());  // repeats the error of the last step, which its caller has seen
  sqlite3_clear_bindings(handle_.get());
  bound_ = 0;
  bind_failure_ = SQLITE_OK;
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(handle_.get(), column) == SQLITE_NULL;
}

std::int64_t Statement::Int(int column) const {
  return sqlite3_column_int64(handle_.get(), column);
}

std::string Statement::Text(int column) const {
  // The pointer is asked for before the size, because asking may convert the value.
  const unsigned char* const data = sqlite3_column_text(handle_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column));
  return data == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(data), size);
}

std::string Statement::Blob(int column) const {
  const void* const data = sqlite3_column_blob(handle_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column));
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

std::optional<std::int64_t> RowReader::OptionalInt() {
  const bool null = statement_.IsNull(at_);
  const std::int64_t value = Int();
  return null ? std::nullopt : std::optional(value);
}

std::optional<Timestamp> RowReader::OptionalTime() {
  const auto value = OptionalInt();
  return value ? std::optional(Timestamp{std::chrono::microseconds{*value}}) : std::nullopt;
}

std::optional<std::string> RowReader::OptionalBlob() {
  const bool null = statement_.IsNull(at_);
  std::string value = Blob();
  return null ? std::nullopt : std::optional(std::move(value));
}

Status Execute(sqlite3* connection, const std::string& sql) {
  if (sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return LastError(connection);
  return Ok();
}

}  // namespace sealane::sqlite
