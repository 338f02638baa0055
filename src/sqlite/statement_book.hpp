#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <sqlite3.h>

#include "sqlite/statement.hpp"

namespace sealane::sqlite {

/// A prepared statement of a book, ready for values. It is reset at the end, so that it keeps no read transaction
/// open.
class BookedStatement {
 public:
  explicit BookedStatement(Statement& statement) : statement_(&statement) {}
  BookedStatement(BookedStatement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
  BookedStatement& operator=(BookedStatement&&) = delete;
  ~BookedStatement() {
    if (statement_ != nullptr) statement_->Reset();
  }

  Statement* operator->() const { return statement_; }
  Statement& operator*() const { return *statement_; }

 private:
  Statement* statement_;
};

/// The statements of a connection, each prepared once. Must end before its connection.
class StatementBook {
 public:
  /// Forgets everything when it would get larger than that.
  StatementBook(sqlite3* connection, std::size_t statements_max)
      : connection_(connection), statements_max_(statements_max) {}

  /// `sql` is one statement: kMisuse (`one_statement`) otherwise. None of this text may be in use.
  Result<BookedStatement> Take(std::string_view sql);

 private:
  sqlite3* connection_;
  std::size_t statements_max_;
  std::map<std::string, Statement, std::less<>> statements_;
};

}  // namespace sealane::sqlite
