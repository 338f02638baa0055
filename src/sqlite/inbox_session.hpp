#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "inbox/inbox_store.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/inbox_memory.hpp"
#include "sqlite/statement_book.hpp"

namespace sealane::sqlite {

/// What an inbox and its batches share, so that either may be destroyed first.
struct InboxSession {
  InboxSession(Connection opened, std::string name, InboxMode its_mode);
  InboxSession(const InboxSession&) = delete;
  InboxSession& operator=(const InboxSession&) = delete;

  /// A statement of our own about this consumer, which is its first parameter.
  Result<BookedStatement> Take(std::string_view sql) {
    SEALANE_ASSIGN_OR_RETURN(BookedStatement statement, statements.Take(sql));
    statement->Bind(consumer);
    return statement;
  }
  Result<Timestamp> Now();

  static constexpr std::size_t kOwnStatementsMax = 1'000;
  static constexpr std::size_t kHandlerStatementsMax = 200;

  /// kUnavailable (`store_changed`) when the file went back to an earlier state since this session was opened.
  /// Inside a transaction that writes: otherwise another connection may be ahead of what is read here.
  Status RequireSameLife();

  Connection connection;
  const std::string consumer;
  const InboxMode mode;
  const std::shared_ptr<InboxMemory> memory;
  const std::int64_t restores;  ///< of the file when it was opened
  /// While handlers work, whoever commits rolls back instead: an effect never goes without its receipt.
  bool handlers_work = false;
  // Statements end before their connection.
  StatementBook statements{connection.get(), kOwnStatementsMax};
  StatementBook handler_statements{connection.get(), kHandlerStatementsMax};
};

/// Whether a row of sealane_inbox_parked may be tried now, as a condition. What waits for a gap is woken, or has a
/// time.
std::string_view DueSql();

/// What whoever lost a partition gets to hear.
Error PartitionFenced(const Partition& partition);

}  // namespace sealane::sqlite
