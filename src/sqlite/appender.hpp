#pragma once

#include <optional>
#include <string>

#include <sqlite3.h>

#include "sealane/transaction.hpp"

#include "sqlite/statement.hpp"

namespace sealane::sqlite {

/// Writes the entries of one batch; its statements are prepared once and used for all of them. When an entry fails,
/// what was written for it may be half there: the caller rolls back to before the batch.
class Appender {
 public:
  explicit Appender(sqlite3* connection) : connection_(connection) {}

  Result<Appended> Append(const NewEntry& entry);

 private:
  /// The event that used the dedup key before, if any.
  Result<std::optional<EventId>> FindDedup(const std::string& fingerprint);
  /// False when somebody has it already.
  Result<bool> Claim(char kind, const std::string& fingerprint, const EventId& id);
  Status ClaimUnique(const NewEntry& entry);
  Status Insert(const Envelope& envelope);
  /// Prepares the statement the first time it is needed.
  Result<Statement*> Use(std::optional<Statement>& slot, std::string_view sql);

  sqlite3* connection_;
  std::optional<Statement> find_;
  std::optional<Statement> claim_;
  std::optional<Statement> insert_;
};

}  // namespace sealane::sqlite
