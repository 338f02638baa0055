#include "demo/database.hpp"

#include <charconv>

#include <fmt/format.h>

#include "connect/store_url.hpp"
#include "postgres/connection.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/statement.hpp"
#include "store_factory.hpp"

namespace sealane::demo {
namespace {

class SqliteDatabase final : public Database {
 public:
  // Writers queue for the file at the beginning of a transaction, not in the middle of it.
  explicit SqliteDatabase(sqlite::Connection connection)
      : Database("BEGIN IMMEDIATE"), connection_(std::move(connection)) {}

  Result<std::vector<Row>> Query(const std::string& sql, std::span<const std::string> values) override {
    SEALANE_ASSIGN_OR_RETURN(sqlite::Statement statement, sqlite::Statement::Prepare(connection_.get(), sql));
    for (const std::string& value : values) statement.Bind(std::string_view(value));
    std::vector<Row> rows;
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool more, statement.Step());
      if (!more) return rows;
      Row& row = rows.emplace_back();
      for (int column = 0; column < statement.columns(); ++column) row.push_back(statement.Text(column));
    }
  }

  TransactionRef transaction() override { return connection_.get(); }

 private:
  sqlite::Connection connection_;
};

class PostgresDatabase final : public Database {
 public:
  PostgresDatabase(postgres::Connection connection, std::string schema)
      : Database("BEGIN"), connection_(std::move(connection)), schema_(std::move(schema)) {}

  Result<std::vector<Row>> Query(const std::string& sql, std::span<const std::string> values) override {
    const std::vector<postgres::TextParameter> parameters(values.begin(), values.end());
    SEALANE_ASSIGN_OR_RETURN(const postgres::PgResult result, postgres::Execute(connection_.get(), sql, parameters));
    std::vector<Row> rows;
    for (int i = 0; i < PQntuples(result.get()); ++i) {
      Row& row = rows.emplace_back();
      for (int column = 0; column < PQnfields(result.get()); ++column) {
        row.emplace_back(postgres::TextAt(result, i, column));
      }
    }
    return rows;
  }

  TransactionRef transaction() override { return {connection_.get(), schema_}; }

 private:
  postgres::Connection connection_;
  const std::string schema_;
};

}  // namespace

Result<Dialect> Dialect::Of(const cli::Settings& store) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, ParseStoreUrl(store.Text(cli::Key::kStoreUrl)));
  Dialect dialect;
  dialect.postgres_ = target.kind == StoreKind::kPostgres;
  if (dialect.postgres_) dialect.schema_ = store.Text(cli::Key::kStoreSchema);
  return dialect;
}

std::string Dialect::Shop(std::string_view table) const {
  return postgres_ ? fmt::format("\"{}\".shop_{}", schema_, table) : fmt::format("shop_{}", table);
}

std::string Dialect::Sealane(std::string_view table) const {
  return postgres_ ? fmt::format("\"{}\".{}", schema_, table) : fmt::format("sealane_{}", table);
}

std::string_view Dialect::Counter() const {
  return postgres_ ? "bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY" : "INTEGER PRIMARY KEY AUTOINCREMENT";
}

std::string Dialect::Uuid(std::string_view column) const {
  return postgres_ ? fmt::format("{}::text", column) : std::string(column);
}

std::string Dialect::Hex(std::string_view column) const {
  return postgres_ ? fmt::format("encode({}, 'hex')", column) : fmt::format("lower(hex({}))", column);
}

std::string Dialect::Micros(std::string_view column) const {
  return postgres_ ? fmt::format("(extract(epoch from {}) * 1000000)::bigint", column) : std::string(column);
}

Result<std::unique_ptr<Database>> Database::Open(const cli::Settings& store) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, ParseStoreUrl(store.Text(cli::Key::kStoreUrl)));
  if (target.kind == StoreKind::kPostgres) {
    const postgres::Options options = cli::PostgresOptionsOf(store);
    SEALANE_ASSIGN_OR_RETURN(postgres::Connection connection, postgres::Connection::Open(options));
    return std::unique_ptr<Database>(std::make_unique<PostgresDatabase>(std::move(connection), options.schema));
  }
  SEALANE_ASSIGN_OR_RETURN(sqlite::Connection connection,
                           sqlite::Connection::Open({.path = target.location,
                                                     .busy_timeout = store.Duration(cli::Key::kStoreConnectTimeout)},
                                                    sqlite::Connection::IfMissing::kFail));
  return std::unique_ptr<Database>(std::make_unique<SqliteDatabase>(std::move(connection)));
}

Status Database::Execute(const std::string& sql, std::span<const std::string> values) {
  SEALANE_RETURN_IF_ERROR(Query(sql, values));
  return Ok();
}

Result<std::int64_t> Database::Number(const std::string& sql) {
  SEALANE_ASSIGN_OR_RETURN(const std::vector<Row> rows, Query(sql));
  std::int64_t number = 0;
  if (!rows.empty() && !rows.front().empty()) {
    const std::string& text = rows.front().front();
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  return number;
}

}  // namespace sealane::demo
