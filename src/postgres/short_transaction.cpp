#include "postgres/short_transaction.hpp"

#include "postgres/connection.hpp"

namespace sealane::postgres {

Error ChangeFailed(PGconn* connection, const Error& error) {
  if (PQstatus(connection) != CONNECTION_BAD) return error;
  return Error(ErrorKind::kInDoubt, "commit_in_doubt",
               "the connection broke during the change: it may or may not have happened")
      .WithHint("look at the audit trail before doing it again");
}

ShortTransaction::~ShortTransaction() {
  // A rollback that fails has nothing left to roll back.
  if (open_) static_cast<void>(Execute(connection_, "ROLLBACK"));
}

Status ShortTransaction::Begin() {
  SEALANE_RETURN_IF_ERROR(Execute(connection_, "BEGIN"));
  open_ = true;
  return Ok();
}

Status ShortTransaction::Commit() {
  open_ = false;
  const auto committed = Execute(connection_, "COMMIT");
  if (committed) return Ok();
  return ChangeFailed(connection_, committed.error());
}

}  // namespace sealane::postgres
