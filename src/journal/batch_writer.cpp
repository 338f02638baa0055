#include "journal/batch_writer.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "core/headers_json.hpp"
#include "core/lane.hpp"
#include "journal/message_size.hpp"
#include "journal/schema.hpp"

namespace sealane::journal {
namespace {

std::string_view BytesOf(const EventId& id) {
  return {reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size()};
}

}  // namespace

Result<BatchWriter> BatchWriter::Open(const JournalOptions& options, WrittenSoFar& so_far, Clock& clock) {
  // One that is gone with what was published is not made anew: that would hide the loss.
  const auto if_missing = so_far.birth.empty() ? Database::IfMissing::kMakeFile : Database::IfMissing::kFail;
  SEALANE_ASSIGN_OR_RETURN(Database database, Database::Open(options.path, if_missing, options.busy_patience, clock));
  BatchWriter writer(std::move(database), options.path, options.partitions, so_far, clock);
  SEALANE_RETURN_IF_ERROR(writer.Prepare());
  SEALANE_RETURN_IF_ERROR(writer.Recognise());
  so_far.birth = writer.database_.birth();
  writer.database_.SetPatience(std::chrono::milliseconds{0});
  return writer;
}

Status BatchWriter::Prepare() {
  const std::pair<Query*, std::string_view> statements[] = {
      {&find_topic_, "SELECT topic_id FROM journal_topics WHERE name = ?"},
      {&add_topic_, "INSERT INTO journal_topics (name, partitions) VALUES (?, ?) RETURNING topic_id"},
      {&add_partition_, "INSERT INTO journal_partitions (topic_id, partition) VALUES (?, ?) RETURNING partition_id"},
      {&list_partitions_, "SELECT partition_id FROM journal_partitions WHERE topic_id = ? ORDER BY partition"},
      {&read_end_, "SELECT next_offset FROM journal_partitions WHERE partition_id = ?"},
      {&write_end_, "UPDATE journal_partitions SET next_offset = ?, bytes = bytes + ? WHERE partition_id = ?"},
      {&insert_,
       "INSERT INTO journal_messages (place, published_at, event_id, key, headers, value) VALUES (?, ?, ?, ?, ?, ?)"},
      {&version_, "PRAGMA data_version"},
      {&birth_, "SELECT value FROM journal_identity WHERE name = 'birth'"},
      {&find_, "SELECT 1 FROM journal_messages WHERE place = ? AND event_id = ?"},
  };
  for (const auto& [query, sql] : statements) {
    SEALANE_ASSIGN_OR_RETURN(*query, database_.Prepare(sql));
  }
  return Ok();
}

Status BatchWriter::Recognise() {
  if (so_far_->birth.empty()) return Ok();
  SEALANE_RETURN_IF_ERROR(birth_.Step());
  const std::string birth = birth_.Bytes(0);
  birth_.Reset();
  if (birth != so_far_->birth) {
    return Error(ErrorKind::kMisconfigured, "another_journal",
                 fmt::format("{} is now another journal (birth {}) than the one that was published to (birth {})",
                             EscapeForTerminal(path_), EscapeForTerminal(birth), so_far_->birth))
        .WithHint(
            "put the right file back; or restart the relay to publish to this one, which lacks what was published");
  }
  for (const auto& [partition, end] : so_far_->ends) {
    read_end_.Bind(partition);
    SEALANE_ASSIGN_OR_RETURN(const bool found, read_end_.Step());
    const std::int64_t next_offset = found ? read_end_.Int(0) : 0;
    read_end_.Reset();
    if (next_offset < end) return WentBack();
  }
  return Ok();
}

Error BatchWriter::WentBack() const {
  return Error(ErrorKind::kMisconfigured, "journal_went_back",
               fmt::format("{} was restored from an earlier copy and lacks messages that were published",
                           EscapeForTerminal(path_)))
      .WithHint(
          "put a copy in place that has them; or restart the relay to go on without them, and publish them again");
}

Status BatchWriter::Write(const std::deque<HeldMessage>& messages) {
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(database_));
  // Moves with every commit of others, and so when the journal is restored in place while it is open.
  SEALANE_RETURN_IF_ERROR(version_.Step());
  const std::int64_t version = version_.Int(0);
  version_.Reset();
  if (std::exchange(seen_version_, version) != version) SEALANE_RETURN_IF_ERROR(Recognise());
  if (auto written = WriteAll(messages); !written) {
    topics_.clear();
    return written;
  }
  auto committed = transaction.Commit();
  if (committed) {
    for (const Partition* const partition : touched_) so_far_->ends[partition->id] = partition->next_offset;
    return Ok();
  }
  topics_.clear();
  const Error& why = committed.error();
  return Error(ErrorKind::kInDoubt, why.code(), why.message()).WithNative(why.native()).WithHint(why.hint());
}

Result<bool> BatchWriter::Holds(const BatchMark& mark) {
  find_.Reset();
  find_.Bind(mark.place).BindBlob(BytesOf(mark.event_id));
  SEALANE_ASSIGN_OR_RETURN(const bool found, find_.Step());
  find_.Reset();
  return found;
}

Status BatchWriter::WriteAll(const std::deque<HeldMessage>& messages) {
  touched_.clear();
  mark_ = {};
  for (const HeldMessage& message : messages) SEALANE_RETURN_IF_ERROR(Insert(message));
  return WriteEnds();
}

Status BatchWriter::Insert(const HeldMessage& message) {
  SEALANE_ASSIGN_OR_RETURN(Partition * partition, Touched(message));
  const std::int64_t place = RowIdOf(partition->id, partition->next_offset);
  if (mark_.place == 0) mark_ = {.place = place, .event_id = message.event_id};
  headers_json_ = HeadersToJson(message.headers);
  insert_.Bind(place)
      .Bind(clock_->Now())
      .BindBlob(BytesOf(message.event_id))
      .Bind(message.key)
      .Bind(headers_json_)
      .BindBlob(message.value);
  SEALANE_RETURN_IF_ERROR(insert_.Run());
  ++partition->next_offset;
  partition->added_bytes += StoredSize(message.key.size(), message.value.size(), headers_json_.size());
  return Ok();
}

// The partition of the message's key, its end read in this transaction.
Result<BatchWriter::Partition*> BatchWriter::Touched(const HeldMessage& message) {
  SEALANE_ASSIGN_OR_RETURN(std::vector<Partition>* const topic, TopicNamed(message.topic));
  const std::int32_t number = LaneOf(LaneHash(message.key), static_cast<std::int32_t>(topic->size()));
  Partition& partition = (*topic)[static_cast<std::size_t>(number)];
  if (partition.touched) return &partition;
  read_end_.Bind(partition.id);
  SEALANE_ASSIGN_OR_RETURN(const bool found, read_end_.Step());
  if (!found) return Error(ErrorKind::kCorrupt, "journal_corrupt", "a partition of the journal is gone");
  partition.next_offset = read_end_.Int(0);
  read_end_.Reset();
  partition.added_bytes = 0;
  partition.touched = true;
  touched_.push_back(&partition);
  return &partition;
}

Result<std::vector<BatchWriter::Partition>*> BatchWriter::TopicNamed(const std::string& name) {
  const auto known = topics_.find(name);
  if (known != topics_.end()) return &known->second;
  find_topic_.Bind(name);
  SEALANE_ASSIGN_OR_RETURN(const bool found, find_topic_.Step());
  const std::int64_t topic_id = found ? find_topic_.Int(0) : 0;
  find_topic_.Reset();

  std::vector<Partition> partitions;
  if (found) {
    list_partitions_.Bind(topic_id);
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool row, list_partitions_.Step());
      if (!row) break;
      partitions.push_back({.id = list_partitions_.Int(0)});
    }
    list_partitions_.Reset();
  } else {
    SEALANE_ASSIGN_OR_RETURN(partitions, MakeTopic(name));
  }
  if (partitions.empty()) return Error(ErrorKind::kCorrupt, "journal_corrupt", "a topic has no partitions");
  return &topics_.emplace(name, std::move(partitions)).first->second;
}

Result<std::vector<BatchWriter::Partition>> BatchWriter::MakeTopic(const std::string& name) {
  add_topic_.Bind(name).Bind(std::int64_t{partitions_});
  SEALANE_RETURN_IF_ERROR(add_topic_.Step());
  const std::int64_t topic_id = add_topic_.Int(0);
  SEALANE_RETURN_IF_ERROR(add_topic_.Run());
  std::vector<Partition> partitions;
  for (std::int32_t number = 0; number < partitions_; ++number) {
    add_partition_.Bind(topic_id).Bind(std::int64_t{number});
    SEALANE_RETURN_IF_ERROR(add_partition_.Step());
    partitions.push_back({.id = add_partition_.Int(0)});
    SEALANE_RETURN_IF_ERROR(add_partition_.Run());
  }
  return partitions;
}

Status BatchWriter::WriteEnds() {
  for (Partition* const partition : touched_) {
    partition->touched = false;
    SEALANE_RETURN_IF_ERROR(
        write_end_.Bind(partition->next_offset).Bind(partition->added_bytes).Bind(partition->id).Run());
  }
  return Ok();
}

}  // namespace sealane::journal
