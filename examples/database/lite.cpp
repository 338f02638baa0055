#include <sqlite3.h>

#include "connection.hpp"

namespace example {
namespace {

using sealane::Error;
using sealane::ErrorKind;
using sealane::Result;
using sealane::SqlValue;
using sealane::Status;

Error Failure(sqlite3* connection) {
  const std::string message = sqlite3_errmsg(connection);
  switch (sqlite3_errcode(connection) & 0xff) {
    case SQLITE_BUSY:
      return Error(ErrorKind::kConflict, "store_busy", message);
    case SQLITE_CONSTRAINT:
      return Error(ErrorKind::kRejected, "constraint_violated", message);
    default:
      return Error(ErrorKind::kMisconfigured, "store_error", message);
  }
}

void Bind(sqlite3_stmt* statement, int at, const SqlValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    sqlite3_bind_text64(statement, at, text->data(), text->size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  } else if (const auto* number = std::get_if<std::int64_t>(&value)) {
    sqlite3_bind_int64(statement, at, *number);
  } else if (const auto* bytes = std::get_if<sealane::SqlBytes>(&value)) {
    sqlite3_bind_blob64(statement, at, bytes->bytes.data(), bytes->bytes.size(), SQLITE_TRANSIENT);
  }
}

Row ReadRow(sqlite3_stmt* statement) {
  Row row;
  for (int column = 0; column < sqlite3_column_count(statement); ++column) {
    const auto* const data = static_cast<const char*>(sqlite3_column_blob(statement, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, column));
    if (sqlite3_column_type(statement, column) == SQLITE_NULL) {
      row.emplace_back();
    } else {
      row.emplace_back(data == nullptr ? std::string() : std::string(data, size));
    }
  }
  return row;
}

class Lite final : public Connection {
 public:
  explicit Lite(const std::string& path) {
    sqlite3* opened = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE, nullptr);
    connection_.reset(opened);
    if (code != SQLITE_OK) {
      throw sealane::SealaneException(
          Error(ErrorKind::kMisconfigured, "store_unreachable", path + ": " + sqlite3_errmsg(opened))
              .WithHint("make it: sealane migrate up --store sqlite:" + path));
    }
    sqlite3_busy_timeout(opened, 30'000);  // relays and consumers write to the same file
    ValueOrThrow(Run("PRAGMA foreign_keys = ON", {}));
  }

  Status Begin() override {
    // IMMEDIATE waits for its turn to write here, and never finds out later that somebody else was faster.
    SEALANE_RETURN_IF_ERROR(Run("BEGIN IMMEDIATE", {}));
    return sealane::Ok();
  }

  Status Commit() override {
    SEALANE_RETURN_IF_ERROR(Run("COMMIT", {}));
    return sealane::Ok();
  }

  Result<Outcome> Run(const std::string& sql, std::span<const SqlValue> values) override {
    sqlite3_stmt* prepared = nullptr;
    sqlite3_prepare_v2(connection_.get(), sql.c_str(), -1, &prepared, nullptr);
    const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement(prepared, &sqlite3_finalize);
    if (!statement) return Failure(connection_.get());
    for (std::size_t i = 0; i < values.size(); ++i) Bind(prepared, static_cast<int>(i) + 1, values[i]);
    Outcome outcome;
    int step = sqlite3_step(prepared);
    for (; step == SQLITE_ROW; step = sqlite3_step(prepared)) outcome.rows.push_back(ReadRow(prepared));
    if (step != SQLITE_DONE) return Failure(connection_.get());
    outcome.changed = sqlite3_changes64(connection_.get());
    return outcome;
  }

  sealane::TransactionRef transaction() override { return connection_.get(); }

 private:
  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> connection_{nullptr, &sqlite3_close};
};

}  // namespace

std::unique_ptr<Connection> ConnectLite(const std::string& path) {
  return std::make_unique<Lite>(path);
}

}  // namespace example
