#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sealane/handler.hpp"

#include "inbox/inbox_store.hpp"
#include "postgres/connection.hpp"

namespace sealane::postgres {

/// The values of a handler's statement as libpq takes them. Borrows the values; to be used again and again.
class StatementValues {
 public:
  /// kRejected (`nul_in_text`) for a text that no column can hold.
  Status Assign(std::span<const SqlValue> values);

  int count() const { return static_cast<int>(pointers_.size()); }
  const Oid* types() const { return types_.data(); }
  const char* const* pointers() const { return pointers_.data(); }
  const int* lengths() const { return lengths_.data(); }
  const int* formats() const { return formats_.data(); }
  /// A letter for each; statements with the same text and other types are other statements.
  const std::string& letters() const { return letters_; }

 private:
  std::vector<std::string> numbers_;  // in binary form; never moved, because pointers_ point into them
  std::vector<Oid> types_;
  std::vector<const char*> pointers_;
  std::vector<int> lengths_;
  std::vector<int> formats_;
  std::string letters_;
};

/// What the server has against a statement, without running it. Only the nameless prepared statement of the session
/// is touched.
Result<std::optional<StatementFault>> ExamineStatement(PGconn* connection, const std::string& sql,
                                                       std::span<const SqlValue> values);

/// Runs handlers' statements on one connection. One that comes for the third time is prepared, which spares the
/// server to parse and plan it for every event. Texts that come once, because values are written into them, are not.
///
/// Nothing is prepared on a pooled connection (session_settings.hpp). A server that loses what was prepared all the
/// same ends the preparing on this connection: the transaction that meets it is lost with kConflict, and runs through
/// when it is repeated.
class InboxStatements {
 public:
  /// Within an open transaction, with nothing posted.
  Result<PgResult> Run(PGconn* connection, const std::string& sql, std::span<const SqlValue> values);

  /// Sends a statement without waiting for its answer. From now until Settle() the connection can do nothing else.
  /// An error is about this statement, or about an earlier one when it was time to wait for some of them.
  Status Post(PGconn* connection, const std::string& sql, std::span<const SqlValue> values);
  bool waiting() const { return !posted_.empty(); }
  /// Waits for the answers; the error of the first statement that failed. Nothing is posted afterwards.
  Status Settle(PGconn* connection);

 private:
  struct Statement {
    std::uint32_t uses = 0;
    std::string name = {};  ///< of the prepared one; empty: there is none
    bool plain = false;     ///< never to be prepared
  };

  /// Null: to be run as it is.
  Statement* Find(const PGconn* connection, const std::string& sql);
  Statement* Look(const std::string& sql);
  bool IsLast(const std::string& sql) const;
  Status Prepare(PGconn* connection, const std::string& sql, Statement& statement);
  /// The error of a prepared statement, which may be about the preparing.
  Error Judge(PGconn* connection, const PGresult* result, Statement& statement);

  StatementValues given_;  // of the statement that is being sent
  std::unordered_map<std::string, Statement> statements_;
  std::unordered_map<std::string, Statement>::value_type* last_ = nullptr;  // most handlers have one statement
  std::vector<Statement*> posted_;  // in their order; null: not a prepared one
  std::size_t prepared_ = 0;
  bool prepares_ = true;
};

}  // namespace sealane::postgres
