#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "inbox/inbox_store.hpp"
#include "postgres/call.hpp"
#include "postgres/connection.hpp"
#include "postgres/inbox_statements.hpp"

namespace sealane::postgres {

/// What everything of one consumer's inbox shares. Copies share the connection, so that a batch may outlive its
/// store.
struct InboxSession {
  std::shared_ptr<Connection> connection;
  std::string schema;
  std::string quoted_schema;
  std::string consumer;
  InboxMode mode = InboxMode::kRecord;
  std::string life = {};  ///< of the server, when the store was opened
  /// What handlers run on the connection.
  std::shared_ptr<InboxStatements> statements = std::make_shared<InboxStatements>();

  PGconn* get() const { return connection->get(); }
  /// A call of one of the inbox's functions, whose first argument is always the consumer.
  Call Function(std::string_view name) const;
  /// Fails the transaction in which another server, or another state of the database, answers.
  Call LifeCheck() const;
  /// Inside an open batch everything would share its fate.
  Status RequireIdle() const;
  /// Begins a transaction with these calls in one round trip. Leaves none open after an error. kUnavailable
  /// (`store_changed`) when another server answers than at the opening; then none of the calls was run.
  Result<std::vector<PgResult>> Begin(std::vector<Call> calls) const;
  /// The same with one call, and commits.
  Result<PgResult> Run(Call call) const;
  /// Ends whatever transaction is open; best effort, because a broken connection has rolled back by itself.
  void RollBack() const;
};

/// A unit as the table keeps it. Broker keys are bytes, columns are text: what is no text is written as \x and
/// hexadecimal digits, and so is a text that looks like that.
std::string UnitToText(std::string_view unit);
std::string UnitFromText(std::string_view text);

/// Text from outside that any column of ours can hold, with an end.
std::string FitForColumn(std::string_view text);

/// Headers in bytes that give back exactly the same ones.
std::string HeadersToBytes(const Headers& headers);
Result<Headers> HeadersFromBytes(std::string_view bytes);

}  // namespace sealane::postgres
