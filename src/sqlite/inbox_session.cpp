#include "sqlite/inbox_session.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane::sqlite {
namespace {

/// SQLite calls it before a commit; any answer but 0 makes a rollback of it.
int RefuseCommit(void* session) {
  return static_cast<const InboxSession*>(session)->handlers_work ? 1 : 0;
}

}  // namespace

InboxSession::InboxSession(Connection opened, std::string name, InboxMode its_mode)
    : connection(std::move(opened)),
      consumer(std::move(name)),
      mode(its_mode),
      memory(InboxMemory::Of(connection.file()->id(), consumer)),
      restores(memory->restores()) {
  sqlite3_commit_hook(connection.get(), RefuseCommit, this);
}

Status InboxSession::RequireSameLife() {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement select,
                           Take("SELECT writes FROM sealane_inbox_consumer WHERE consumer = ?"));
  SEALANE_ASSIGN_OR_RETURN(const bool found, select->Step());
  if (memory->Saw(found ? select->Int(0) : 0, restores)) return Ok();
  return Error(ErrorKind::kUnavailable, "store_changed",
               "the file was restored from an earlier copy after it was opened")
      .WithHint("open it again and attach again: what was committed before may be missing");
}

Result<Timestamp> InboxSession::Now() {
  static const std::string sql = fmt::format("SELECT {}", kNowSql);
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement now, statements.Take(sql));
  SEALANE_RETURN_IF_ERROR(now->Step());
  return RowReader(*now).Time();
}

std::string_view DueSql() {
  static const std::string sql = fmt::format(
      "(CASE state WHEN 'GAP' THEN coalesce(next_attempt_at <= {0}, 0)"
      " WHEN 'DEAD' THEN 0 WHEN 'SKIPPED' THEN 0 ELSE coalesce(next_attempt_at, 0) <= {0} END"
      " AND coalesce(claimed_until, 0) <= {0})",
      kNowSql);
  return sql;
}

Error PartitionFenced(const Partition& partition) {
  return Error(ErrorKind::kFenced, "partition_fenced",
               fmt::format("somebody else has partition {} of topic {}", partition.number,
                           EscapeForTerminal(partition.topic)))
      .WithHint("drop what is under way for it; its owner does the work");
}

}  // namespace sealane::sqlite
