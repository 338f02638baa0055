#include "sqlite/inbox_bytes.hpp"
#include "sqlite/inbox_rows.hpp"

namespace sealane::sqlite {

Status InboxRows::CheckProgress(const ProgressMove& move) {
  SEALANE_RETURN_IF_ERROR(CheckMove(move));
  // A partition without a position takes the first one that its owner names.
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement select,
      session_.Take("SELECT 1 FROM sealane_inbox_partition WHERE consumer = ? AND topic = ? AND partition = ?"
                    " AND epoch = ? AND (next_offset IS NULL OR next_offset = ?)"));
  select->Bind(move.partition.topic).Bind(std::int64_t{move.partition.number}).Bind(move.epoch).Bind(move.from);
  SEALANE_ASSIGN_OR_RETURN(const bool ours, select->Step());
  if (!ours) return PartitionFenced(move.partition);
  return Ok();
}

Status InboxRows::MoveProgress(const ProgressMove& move) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement update,
                           session_.Take("UPDATE sealane_inbox_partition SET next_offset = ?4,"
                                         " witness_offset = coalesce(?5, witness_offset),"
                                         " witness = coalesce(?6, witness)"
                                         " WHERE consumer = ?1 AND topic = ?2 AND partition = ?3"));
  update->Bind(move.partition.topic).Bind(std::int64_t{move.partition.number}).Bind(move.to);
  if (move.witness) update->Bind(move.witness->offset).BindBlob(move.witness->fingerprint);
  return update->Run();
}

Result<bool> InboxRows::SavePosition(const PositionSave& save) {
  {
    SEALANE_ASSIGN_OR_RETURN(
        const BookedStatement select,
        session_.Take("SELECT 1 FROM sealane_inbox_partition WHERE consumer = ? AND topic = ? AND partition = ?"
                      " AND epoch = ? AND next_offset IS ?"));
    select->Bind(save.partition.topic).Bind(std::int64_t{save.partition.number}).Bind(save.epoch);
    select->BindOptional(save.from);
    SEALANE_ASSIGN_OR_RETURN(const bool fits, select->Step());
    if (!fits) return false;
  }
  if (save.from == save.to) return true;
  SEALANE_RETURN_IF_ERROR(MoveProgress({.partition = save.partition, .to = save.to, .witness = save.witness}));
  return true;
}

Status InboxRows::Remember(const Partition& partition, std::int64_t through, std::span<const EventId> ids) {
  if (ids.empty()) return Ok();
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement insert,
      session_.Take("INSERT INTO sealane_inbox_recent (consumer, topic, partition, through_offset, ids)"
                    " VALUES (?, ?, ?, ?, ?)"));
  const std::string bytes = IdsToBytes(ids);
  insert->Bind(partition.topic).Bind(std::int64_t{partition.number}).Bind(through).BindBlob(bytes);
  return insert->Run();
}

Status InboxRows::ForgetThrough(const Partition& partition, std::int64_t offset) {
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement remove,
      session_.Take("DELETE FROM sealane_inbox_recent WHERE consumer = ? AND topic = ? AND partition = ?"
                    " AND through_offset <= ?"));
  remove->Bind(partition.topic).Bind(std::int64_t{partition.number}).Bind(offset);
  return remove->Run();
}

Result<std::optional<std::int64_t>> InboxRows::SuspectOf(const Partition& partition) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement select,
                           session_.Take("SELECT suspect_offset FROM sealane_inbox_partition"
                                         " WHERE consumer = ? AND topic = ? AND partition = ?"));
  select->Bind(partition.topic).Bind(std::int64_t{partition.number});
  SEALANE_ASSIGN_OR_RETURN(const bool found, select->Step());
  return found ? RowReader(*select).OptionalInt() : std::nullopt;
}

Status InboxRows::ClearSuspect(const Partition& partition) {
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement update,
      session_.Take(
          "UPDATE sealane_inbox_partition SET suspect_offset = NULL, suspect_epoch = NULL, suspect_deaths = 0"
          " WHERE consumer = ? AND topic = ? AND partition = ?"));
  update->Bind(partition.topic).Bind(std::int64_t{partition.number});
  return update->Run();
}

}  // namespace sealane::sqlite
