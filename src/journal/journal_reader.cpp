#include "journal/journal_reader.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/headers_json.hpp"
#include "journal/database.hpp"
#include "journal/schema.hpp"

namespace sealane {

using journal::Database;
using journal::Query;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kLookMin{1};
constexpr milliseconds kLookMax{50};

/// Ends the read transaction of a statement, which would keep the journal's log from being recycled.
class ResetAtEnd {
 public:
  explicit ResetAtEnd(Query& query) : query_(query) {}
  ~ResetAtEnd() { query_.Reset(); }
  ResetAtEnd(const ResetAtEnd&) = delete;
  ResetAtEnd& operator=(const ResetAtEnd&) = delete;

 private:
  Query& query_;
};

Error BadRow(const JournalMessage& message, std::string_view what) {
  return Error(ErrorKind::kCorrupt, "journal_corrupt",
               fmt::format("message {} of partition {} of {} has {}", message.offset, message.partition,
                           message.topic, what))
      .WithHint("restore the file from a backup; PRAGMA integrity_check tells more");
}

}  // namespace

class JournalReader::Impl {
 public:
  Impl(Database database, Clock& clock) : database_(std::move(database)), clock_(clock) {}

  Status Prepare() {
    SEALANE_ASSIGN_OR_RETURN(topics_, database_.Prepare("SELECT name FROM journal_topics ORDER BY name"));
    SEALANE_ASSIGN_OR_RETURN(partitions_,
                             database_.Prepare("SELECT p.partition, p.first_offset, p.next_offset, p.bytes "
                                               "FROM journal_partitions p JOIN journal_topics t USING (topic_id) "
                                               "WHERE t.name = ? ORDER BY p.partition"));
    SEALANE_ASSIGN_OR_RETURN(
        partition_id_,
        database_.Prepare("SELECT p.partition_id FROM journal_partitions p "
                          "JOIN journal_topics t USING (topic_id) WHERE t.name = ? AND p.partition = ?"));
    // A range of the table's own tree: no sorting, and nothing is read beyond what is taken.
    SEALANE_ASSIGN_OR_RETURN(
        messages_, database_.Prepare("SELECT place, published_at, event_id, key, headers, value "
                                     "FROM journal_messages WHERE place >= ? AND place < ? ORDER BY place LIMIT ?"));
    SEALANE_ASSIGN_OR_RETURN(
        unread_, database_.Prepare("SELECT coalesce(sum(max(p.next_offset - max(coalesce(g.next_offset, 0), "
                                   "p.first_offset), 0)), 0) FROM journal_partitions p "
                                   "JOIN journal_topics t USING (topic_id) LEFT JOIN journal_group_offsets g "
                                   "ON g.partition_id = p.partition_id AND g.group_name = ? WHERE t.name = ?"));
    SEALANE_ASSIGN_OR_RETURN(place_,
                             database_.Prepare("SELECT t.topic_id, p.first_offset, p.next_offset, g.next_offset "
                                               "FROM journal_topics t JOIN journal_partitions p USING (topic_id) "
                                               "LEFT JOIN journal_group_offsets g ON g.partition_id = p.partition_id "
                                               "AND g.group_name = ? WHERE t.name = ? AND p.partition = ?"));
    SEALANE_ASSIGN_OR_RETURN(since_,
                             database_.Prepare("SELECT place FROM journal_messages WHERE place >= ? AND place < ? "
                                               "AND published_at >= ? ORDER BY place LIMIT 1"));
    SEALANE_ASSIGN_OR_RETURN(version_, database_.Prepare("PRAGMA data_version"));
    return Ok();
  }

  const std::string& Birth() const { return database_.birth(); }

  Result<std::vector<std::string>> Topics() {
    SEALANE_RETURN_IF_ERROR(database_.RequireCurrent());
    topics_.Reset();
    std::vector<std::string> names;
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool row, topics_.Step());
      if (!row) break;
      names.push_back(topics_.Bytes(0));
    }
    topics_.Reset();
    return names;
  }

  Result<std::vector<JournalPartition>> Partitions(std::string_view topic) {
    SEALANE_RETURN_IF_ERROR(database_.RequireCurrent());
    partitions_.Reset();
    partitions_.Bind(topic);
    std::vector<JournalPartition> found;
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool row, partitions_.Step());
      if (!row) break;
      found.push_back({.topic = std::string(topic),
                       .partition = static_cast<std::int32_t>(partitions_.Int(0)),
                       .first_offset = partitions_.Int(1),
                       .next_offset = partitions_.Int(2),
                       .bytes = partitions_.Int(3)});
    }
    partitions_.Reset();
    return found;
  }

  Result<std::vector<JournalMessage>> Read(std::string_view topic, std::int32_t partition, std::int64_t offset,
                                           const JournalReadLimits& limits) {
    SEALANE_RETURN_IF_ERROR(database_.RequireCurrent());
    std::vector<JournalMessage> found;
    SEALANE_ASSIGN_OR_RETURN(const auto id, PartitionId(topic, partition));
    if (!id) return found;
    const ResetAtEnd end_of_reading(messages_);
    messages_.Bind(journal::RowIdOf(*id, std::max<std::int64_t>(offset, 0)))
        .Bind(journal::RowIdOf(*id + 1, 0))
        .Bind(static_cast<std::int64_t>(limits.messages_max));
    std::size_t bytes = 0;
    while (bytes < limits.bytes_max) {
      SEALANE_ASSIGN_OR_RETURN(const bool row, messages_.Step());
      if (!row) break;
      JournalMessage message{.topic = std::string(topic), .partition = partition};
      SEALANE_RETURN_IF_ERROR(ReadRow(*id, message));
      bytes += message.key.size() + message.value.size();
      found.push_back(std::move(message));
    }
    return found;
  }

  Result<std::optional<JournalPlace>> Find(std::string_view group, std::string_view topic, std::int32_t partition) {
    SEALANE_RETURN_IF_ERROR(database_.RequireCurrent());
    const ResetAtEnd end_of_reading(place_);
    place_.Bind(group).Bind(topic).Bind(std::int64_t{partition});
    SEALANE_ASSIGN_OR_RETURN(const bool found, place_.Step());
    if (!found) return std::optional<JournalPlace>();
    return std::optional(JournalPlace{.topic_id = place_.Int(0),
                                      .first_offset = place_.Int(1),
                                      .next_offset = place_.Int(2),
                                      .group = place_.IsNull(3) ? std::nullopt : std::optional(place_.Int(3))});
  }

  Result<std::optional<std::int64_t>> OffsetAt(std::string_view topic, std::int32_t partition, Timestamp time) {
    SEALANE_RETURN_IF_ERROR(database_.RequireCurrent());
    SEALANE_ASSIGN_OR_RETURN(const auto id, PartitionId(topic, partition));
    if (!id) return std::optional<std::int64_t>();
    const ResetAtEnd end_of_reading(since_);
    since_.Bind(journal::RowIdOf(*id, 0)).Bind(journal::RowIdOf(*id + 1, 0)).Bind(time);
    SEALANE_ASSIGN_OR_RETURN(const bool found, since_.Step());
    return found ? std::optional(since_.Int(0) - journal::RowIdOf(*id, 0)) : std::nullopt;
  }

  Result<std::int64_t> Unread(std::string_view group, std::string_view topic) {
    SEALANE_RETURN_IF_ERROR(database_.RequireCurrent());
    const ResetAtEnd end_of_reading(unread_);
    unread_.Bind(group).Bind(topic);
    SEALANE_RETURN_IF_ERROR(unread_.Step());
    return unread_.Int(0);
  }

  Result<bool> AwaitChange(milliseconds wait, const std::stop_token& stop) {
    const BootTime deadline = clock_.SinceBoot() + wait;
    milliseconds pause = kLookMin;
    while (true) {
      SEALANE_RETURN_IF_ERROR(database_.RequireCurrent());
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t version, DataVersion());
      if (std::exchange(seen_version_, version) != version) return true;
      const BootTime left = deadline - clock_.SinceBoot();
      if (left.count() <= 0) return false;
      if (!clock_.SleepFor(std::min<BootTime>(left, pause), stop)) return false;
      pause = std::min(pause * 2, kLookMax);
    }
  }

 private:
  Result<std::optional<std::int64_t>> PartitionId(std::string_view topic, std::int32_t partition) {
    partition_id_.Reset();
    partition_id_.Bind(topic).Bind(std::int64_t{partition});
    SEALANE_ASSIGN_OR_RETURN(const bool found, partition_id_.Step());
    const std::optional<std::int64_t> id = found ? std::optional(partition_id_.Int(0)) : std::nullopt;
    partition_id_.Reset();
    return id;
  }

  Status ReadRow(std::int64_t partition_id, JournalMessage& message) const {
    message.offset = messages_.Int(0) - journal::RowIdOf(partition_id, 0);
    message.published_at = messages_.Time(1);
    const std::string id = messages_.Bytes(2);
    EventId::Bytes bytes{};
    if (id.size() != bytes.size()) return BadRow(message, "no event id");
    std::memcpy(bytes.data(), id.data(), bytes.size());
    message.event_id = EventId(bytes);
    message.key = messages_.Bytes(3);
    auto headers = HeadersFromJson(messages_.Bytes(4));
    if (!headers) return BadRow(message, "headers that cannot be read");
    message.headers = *std::move(headers);
    message.value = messages_.Bytes(5);
    return Ok();
  }

  Result<std::int64_t> DataVersion() {
    version_.Reset();
    SEALANE_RETURN_IF_ERROR(version_.Step());
    const std::int64_t version = version_.Int(0);
    version_.Reset();
    return version;
  }

  Database database_;
  Clock& clock_;
  Query topics_;
  Query partitions_;
  Query partition_id_;
  Query messages_;
  Query unread_;
  Query place_;
  Query since_;
  Query version_;
  std::int64_t seen_version_ = -1;
};

JournalReader::JournalReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JournalReader::~JournalReader() = default;

Result<std::unique_ptr<JournalReader>> JournalReader::Open(const JournalOptions& options, Clock& clock) {
  SEALANE_ASSIGN_OR_RETURN(Database database,
                           Database::Open(options.path, Database::IfMissing::kFail, options.busy_patience, clock));
  auto impl = std::make_unique<Impl>(std::move(database), clock);
  SEALANE_RETURN_IF_ERROR(impl->Prepare());
  return std::unique_ptr<JournalReader>(new JournalReader(std::move(impl)));
}

const std::string& JournalReader::Birth() const {
  return impl_->Birth();
}

Result<std::vector<std::string>> JournalReader::Topics() {
  return impl_->Topics();
}

Result<std::vector<JournalPartition>> JournalReader::Partitions(std::string_view topic) {
  return impl_->Partitions(topic);
}

Result<std::vector<JournalMessage>> JournalReader::Read(std::string_view topic, std::int32_t partition,
                                                        std::int64_t offset, const JournalReadLimits& limits) {
  return impl_->Read(topic, partition, offset, limits);
}

Result<std::optional<JournalPlace>> JournalReader::Find(std::string_view group, std::string_view topic,
                                                        std::int32_t partition) {
  return impl_->Find(group, topic, partition);
}

Result<std::optional<std::int64_t>> JournalReader::OffsetAt(std::string_view topic, std::int32_t partition,
                                                            Timestamp time) {
  return impl_->OffsetAt(topic, partition, time);
}

Result<std::int64_t> JournalReader::Unread(std::string_view group, std::string_view topic) {
  return impl_->Unread(group, topic);
}

Result<bool> JournalReader::AwaitChange(milliseconds wait, std::stop_token stop) {
  return impl_->AwaitChange(wait, stop);
}

}  // namespace sealane
