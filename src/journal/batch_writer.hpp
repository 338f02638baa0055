#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "broker/held_message.hpp"
#include "journal/database.hpp"
#include "journal/journal.hpp"

namespace sealane::journal {

/// Where the first message of a batch was to stand when its commit failed: whoever finds it there knows that the
/// batch was written after all.
struct BatchMark {
  std::int64_t place = 0;
  EventId event_id;
};

/// What a publisher has written so far, whatever connection it used: a journal that lacks it is not the one that the
/// publisher knows.
struct WrittenSoFar {
  std::string birth;                                    ///< of the journal; empty: not opened yet
  std::unordered_map<std::int64_t, std::int64_t> ends;  ///< by partition id: the offset after the last one written
};

/// Writes batches of messages with a connection of its own. After any error but kConflict a new one is to be made.
class BatchWriter {
 public:
  /// Makes the journal when this is the first time. Afterwards it is expected to be there (`journal_missing`),
  /// to be the same journal (`another_journal`), and to have what was written (`journal_went_back`). `so_far` must
  /// outlive the writer.
  static Result<BatchWriter> Open(const JournalOptions& options, WrittenSoFar& so_far, Clock& clock);

  /// Writes all messages or none. Does not wait for other writers: kConflict when there is one. kInDoubt when the
  /// commit failed, and then mark() tells how to find out.
  Status Write(const std::deque<HeldMessage>& messages);
  const BatchMark& mark() const { return mark_; }
  /// Whether the batch with this mark was written.
  Result<bool> Holds(const BatchMark& mark);
  /// Whether the file that was opened is still the one behind its path.
  Status RequireCurrent() const { return database_.RequireCurrent(); }

 private:
  struct Partition {
    std::int64_t id = 0;
    std::int64_t next_offset = 0;
    std::int64_t added_bytes = 0;
    bool touched = false;
  };
  BatchWriter(Database database, std::string path, std::int32_t partitions, WrittenSoFar& so_far, Clock& clock)
      : database_(std::move(database)),
        path_(std::move(path)),
        partitions_(partitions),
        so_far_(&so_far),
        clock_(&clock) {}

  Status Prepare();
  Status Recognise();
  Error WentBack() const;
  Status WriteAll(const std::deque<HeldMessage>& messages);
  Status Insert(const HeldMessage& message);
  Result<std::vector<Partition>*> TopicNamed(const std::string& name);
  Result<std::vector<Partition>> MakeTopic(const std::string& name);
  Result<Partition*> Touched(const HeldMessage& message);
  Status WriteEnds();

  Database database_;
  std::string path_;
  Query find_topic_;
  Query add_topic_;
  Query add_partition_;
  Query list_partitions_;
  Query read_end_;
  Query write_end_;
  Query insert_;
  Query find_;
  Query version_;
  Query birth_;
  std::int64_t seen_version_ = -1;
  std::int32_t partitions_;
  WrittenSoFar* so_far_;
  Clock* clock_;
  // Topics and their partitions never change once they are there. Those made in a transaction that failed are
  // forgotten with it.
  std::unordered_map<std::string, std::vector<Partition>> topics_;
  std::vector<Partition*> touched_;  // partitions of the batch being written
  std::string headers_json_;
  BatchMark mark_;
};

}  // namespace sealane::journal
