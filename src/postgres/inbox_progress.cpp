#include "postgres/inbox_progress.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace sealane::postgres {

Result<std::vector<AttachedPartition>> InboxProgress::Attach(std::span<const Partition> partitions,
                                                             std::size_t recent_max) const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  if (partitions.empty()) return std::vector<AttachedPartition>();
  SEALANE_ASSIGN_OR_RETURN(const PgResult result,
                           session_.Function("inbox_attach")
                               .Texts(partitions, [](const Partition& p) { return std::string_view(p.topic); })
                               .Int4s(partitions, [](const Partition& p) { return p.number; })
                               .Run(session_.get()));
  std::vector<AttachedPartition> attached;
  for (const Partition& partition : partitions) {
    int row = 0;
    while (row < PQntuples(result.get()) &&
           (TextAt(result, row, 0) != partition.topic || IntAt(result, row, 1) != partition.number)) {
      ++row;
    }
    SEALANE_ASSERT(row < PQntuples(result.get()), "every partition that was asked for comes back");
    AttachedPartition& one = attached.emplace_back();
    one.partition = partition;
    one.epoch = IntAt(result, row, 2);
    one.deaths = static_cast<std::int32_t>(IntAt(result, row, 4));
    if (!IsNull(result, row, 5)) one.suspect_offset = IntAt(result, row, 5);
    one.suspect_deaths = static_cast<std::int32_t>(IntAt(result, row, 6));
    if (session_.mode == InboxMode::kOffsets) {
      if (!IsNull(result, row, 3)) one.next_offset = IntAt(result, row, 3);
      SEALANE_RETURN_IF_ERROR(ReadRecent(one, recent_max));
    }
  }
  return attached;
}

Status InboxProgress::ReadRecent(AttachedPartition& attached, std::size_t recent_max) const {
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, session_.Function("inbox_recent_ids")
                                                      .Text(attached.partition.topic)
                                                      .Int4(attached.partition.number)
                                                      .Int8(static_cast<std::int64_t>(recent_max))
                                                      .Run(session_.get()));
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    const std::string bytes = BytesAt(result, row, 1);
    for (std::size_t at = 0; at + EventId::kSize <= bytes.size(); at += EventId::kSize) {
      EventId::Bytes id;
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), EventId::kSize, id.begin());
      attached.recent.emplace_back(id);
      attached.recent_through.push_back(IntAt(result, row, 0));
    }
  }
  // The oldest batch may be needed only in part.
  if (attached.recent.size() > recent_max) {
    const auto excess = static_cast<std::ptrdiff_t>(attached.recent.size() - recent_max);
    attached.recent.erase(attached.recent.begin(), attached.recent.begin() + excess);
    attached.recent_through.erase(attached.recent_through.begin(), attached.recent_through.begin() + excess);
  }
  return Ok();
}

Status InboxProgress::Detach(std::span<const AttachedPartition> partitions) const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  if (partitions.empty()) return Ok();
  SEALANE_RETURN_IF_ERROR(
      session_.Function("inbox_detach")
          .Texts(partitions, [](const AttachedPartition& p) { return std::string_view(p.partition.topic); })
          .Int4s(partitions, [](const AttachedPartition& p) { return p.partition.number; })
          .Int8s(partitions, [](const AttachedPartition& p) { return p.epoch; })
          .Run(session_.get()));
  return Ok();
}

Status InboxProgress::Suspect(const AttachedPartition& partition, std::int64_t offset) const {
  return RunOwned(partition, session_.Function("inbox_suspect")
                                 .Text(partition.partition.topic)
                                 .Int4(partition.partition.number)
                                 .Int8(partition.epoch)
                                 .Int8(offset));
}

Status InboxProgress::Calm(const AttachedPartition& partition) const {
  return RunOwned(partition, session_.Function("inbox_calm")
                                 .Text(partition.partition.topic)
                                 .Int4(partition.partition.number)
                                 .Int8(partition.epoch));
}

Status InboxProgress::RunOwned(const AttachedPartition& partition, const Call& call) const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, call.Run(session_.get()));
  if (TextAt(result, 0, 0) == "t") return Ok();
  return Error(ErrorKind::kFenced, "partition_fenced",
               fmt::format("partition {} of {} is not in epoch {} of consumer \"{}\" any more",
                           partition.partition.number, partition.partition.topic, partition.epoch, session_.consumer))
      .WithHint("somebody else has the partition: drop what is under way for it");
}

}  // namespace sealane::postgres
