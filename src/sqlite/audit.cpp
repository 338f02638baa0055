#include "sqlite/audit.hpp"

#include <utility>

#include "sqlite/statement.hpp"

namespace sealane::sqlite {

Status NoteAudit(sqlite3* connection, std::string_view action, std::string target, const OperatorAction& why) {
  // The id and the time are the table's own.
  const AuditRecord record = RecordOf(0, {}, action, std::move(target), why);
  SEALANE_ASSIGN_OR_RETURN(
      Statement insert,
      Statement::Prepare(connection,
                         "INSERT INTO sealane_audit (actor, action, target, reason, login, client, application)"
                         " VALUES (?, ?, ?, ?, ?, ?, ?)"));
  insert.Bind(record.actor).Bind(record.action).Bind(record.target).Bind(record.reason);
  insert.Bind(record.login).Bind(record.client).Bind(record.application);
  return insert.Run();
}

}  // namespace sealane::sqlite
