#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/result.hpp"
#include "sealane/transaction.hpp"

#include "config/settings.hpp"

namespace sealane::demo {

/// The names of tables in one store, and the few things that its SQL says differently. Statements are written with
/// `$1`, `$2`, which both stores read.
class Dialect {
 public:
  /// Of the store that the section names.
  static Result<Dialect> Of(const cli::Settings& store);

  bool is_postgres() const { return postgres_; }
  const std::string& schema() const { return schema_; }
  /// A table of the shop: `shop_orders`, in PostgreSQL with its schema.
  std::string Shop(std::string_view table) const;
  /// A table of Sealane: `outbox` is `sealane_outbox` or `"schema".outbox`.
  std::string Sealane(std::string_view table) const;
  /// Type and constraints of a column that counts up.
  std::string_view Counter() const;
  /// A column of type uuid, bytes or time as text, hexadecimal digits and microseconds since 1970.
  std::string Uuid(std::string_view column) const;
  std::string Hex(std::string_view column) const;
  std::string Micros(std::string_view column) const;

 private:
  bool postgres_ = false;
  std::string schema_;
};

/// A row in text form; null is empty.
using Row = std::vector<std::string>;

/// The shop's own connection to its database, as an application would have it: plain SQL, and transactions that it
/// begins and ends itself. One owner, one thread.
class Database {
 public:
  static Result<std::unique_ptr<Database>> Open(const cli::Settings& store);
  virtual ~Database() = default;

  Status Begin() { return Execute(begin_); }
  Status Commit() { return Execute("COMMIT"); }
  Status Rollback() { return Execute("ROLLBACK"); }
  Status Execute(const std::string& sql, std::span<const std::string> values = {});
  virtual Result<std::vector<Row>> Query(const std::string& sql, std::span<const std::string> values = {}) = 0;
  /// The whole number that a query answers with.
  Result<std::int64_t> Number(const std::string& sql);
  /// The open transaction as the outbox takes it.
  virtual TransactionRef transaction() = 0;

 protected:
  explicit Database(std::string begin) : begin_(std::move(begin)) {}

 private:
  const std::string begin_;
};

}  // namespace sealane::demo
