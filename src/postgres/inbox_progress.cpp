#include "postgres/inbox_progress.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "postgres/row_text.hpp"

namespace sealane::postgres {
namespace {

AttachedPartition ReadAttached(const PgResult& result, int row) {
  FieldReader fields(result, row);
  AttachedPartition one;
  one.partition.topic = fields.Text();
  one.partition.number = static_cast<std::int32_t>(fields.Int());
  one.epoch = fields.Int();
  one.next_offset = fields.OptionalInt();
  one.deaths = static_cast<std::int32_t>(fields.Int());
  one.suspect_offset = fields.OptionalInt();
  one.suspect_deaths = static_cast<std::int32_t>(fields.Int());
  one.topic_id = fields.Text();
  const std::optional<std::int64_t> witness_offset = fields.OptionalInt();
  std::string witness = fields.Bytes();
  if (witness_offset) one.witness = Witness{*witness_offset, std::move(witness)};
  one.follows_group = fields.Truth();
  PartitionStop stop{fields.Text(), fields.Text()};
  if (!stop.code.empty()) one.stop = std::move(stop);
  one.resume = ParseResumePoint(fields.Text());
  return one;
}

}  // namespace

Result<std::vector<AttachedPartition>> InboxProgress::Attach(std::span<const Partition> partitions,
                                                             std::size_t recent_max) const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  if (partitions.empty()) return std::vector<AttachedPartition>();
  Call call = session_.Function("inbox_attach");
  call.Texts(partitions, [](const Partition& p) { return std::string_view(p.topic); })
      .Int4s(partitions, [](const Partition& p) { return p.number; });
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, session_.Run(std::move(call)));
  std::vector<AttachedPartition> attached;
  for (const Partition& partition : partitions) {
    int row = 0;
    while (row < PQntuples(result.get()) &&
           (TextAt(result, row, 0) != partition.topic || IntAt(result, row, 1) != partition.number)) {
      ++row;
    }
    SEALANE_ASSERT(row < PQntuples(result.get()), "every partition that was asked for comes back");
    AttachedPartition& one = attached.emplace_back(ReadAttached(result, row));
    if (session_.mode == InboxMode::kOffsets) SEALANE_RETURN_IF_ERROR(ReadRecent(one, recent_max));
  }
  return attached;
}

Status InboxProgress::ReadRecent(AttachedPartition& attached, std::size_t recent_max) const {
  Call call = session_.Function("inbox_recent_ids");
  call.Text(attached.partition.topic).Int4(attached.partition.number).Int8(static_cast<std::int64_t>(recent_max));
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, session_.Run(std::move(call)));
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
  Call call = session_.Function("inbox_detach");
  call.Texts(partitions, [](const AttachedPartition& p) { return std::string_view(p.partition.topic); })
      .Int4s(partitions, [](const AttachedPartition& p) { return p.partition.number; })
      .Int8s(partitions, [](const AttachedPartition& p) { return p.epoch; });
  SEALANE_RETURN_IF_ERROR(session_.Run(std::move(call)));
  return Ok();
}

Result<std::vector<std::size_t>> InboxProgress::Save(std::span<const PositionSave> saves) const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  for (const PositionSave& save : saves) {
    SEALANE_RETURN_IF_ERROR(CheckMove({save.partition, save.epoch, save.from.value_or(save.to), save.to}));
  }
  if (saves.empty()) return std::vector<std::size_t>();
  Call call = session_.Function("inbox_save_positions");
  call.Texts(saves, [](const PositionSave& s) { return std::string_view(s.partition.topic); })
      .Int4s(saves, [](const PositionSave& s) { return s.partition.number; })
      .Int8s(saves, [](const PositionSave& s) { return s.epoch; })
      .Int8s(saves, [](const PositionSave& s) { return s.from; })
      .Int8s(saves, [](const PositionSave& s) { return s.to; })
      .Int8s(saves, [](const PositionSave& s) { return s.witness ? std::optional(s.witness->offset) : std::nullopt; })
      .Byteas(saves, [](const PositionSave& s) {
        return s.witness ? std::optional<std::string_view>(s.witness->fingerprint) : std::nullopt;
      });
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, session_.Run(std::move(call)));
  std::vector<std::size_t> differ;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    differ.push_back(static_cast<std::size_t>(IntAt(result, row, 0) - 1));
  }
  return differ;
}

Status InboxProgress::Place(const AttachedPartition& partition, std::int64_t next_offset,
                            const std::string& topic_id) const {
  return RunOwned(partition, Owned("inbox_place", partition).Int8(next_offset).Text(topic_id));
}

Status InboxProgress::Stop(const AttachedPartition& partition, const PartitionStop& stop) const {
  return RunOwned(partition, Owned("inbox_stop", partition).Text(stop.code).Text(FitForColumn(stop.message)));
}

Status InboxProgress::Suspect(const AttachedPartition& partition, std::int64_t offset) const {
  return RunOwned(partition, Owned("inbox_suspect", partition).Int8(offset));
}

Status InboxProgress::Calm(const AttachedPartition& partition) const {
  return RunOwned(partition, Owned("inbox_calm", partition));
}

Call InboxProgress::Owned(std::string_view function, const AttachedPartition& partition) const {
  Call call = session_.Function(function);
  call.Text(partition.partition.topic).Int4(partition.partition.number).Int8(partition.epoch);
  return call;
}

Status InboxProgress::RunOwned(const AttachedPartition& partition, Call call) const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, session_.Run(std::move(call)));
  if (TextAt(result, 0, 0) == "t") return Ok();
  return Error(ErrorKind::kFenced, "partition_fenced",
               fmt::format("partition {} of {} is not in epoch {} of consumer \"{}\" any more",
                           partition.partition.number, partition.partition.topic, partition.epoch, session_.consumer))
      .WithHint("somebody else has the partition: drop what is under way for it");
}

}  // namespace sealane::postgres
