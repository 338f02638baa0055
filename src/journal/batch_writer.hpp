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

/// Writes batches of messages with a connection of its own. After any error but kConflict a new one is to be made.
class BatchWriter {
 public:
  static Result<BatchWriter> Open(const JournalOptions& options, Clock& clock);

  /// Writes all messages or none. Does not wait for other writers: kConflict when there is one. kInDoubt when the
  /// commit failed, and then mark() tells how to find out.
  Status Write(const std::deque<HeldMessage>& messages);
  const BatchMark& mark() const { return mark_; }
  /// Whether the batch with this mark was written.
  Result<bool> Holds(const BatchMark& mark);
  /// Whether the file that was opened is still the one behind its path.
  bool IsCurrent() const { return database_.IsCurrent(); }

 private:
  struct Partition {
    std::int64_t id = 0;
    std::int64_t next_offset = 0;
    std::int64_t added_bytes = 0;
    bool touched = false;
  };
  BatchWriter(Database database, std::int32_t partitions, Clock& clock)
      : database_(std::move(database)), partitions_(partitions), clock_(&clock) {}

  Status Prepare();
  Status WriteAll(const std::deque<HeldMessage>& messages);
  Status Insert(const HeldMessage& message);
  Result<std::vector<Partition>*> TopicNamed(const std::string& name);
  Result<std::vector<Partition>> MakeTopic(const std::string& name);
  Result<Partition*> Touched(const HeldMessage& message);
  Status WriteEnds();

  Database database_;
  Query find_topic_;
  Query add_topic_;
  Query add_partition_;
  Query list_partitions_;
  Query read_end_;
  Query write_end_;
  Query insert_;
  Query find_;
  std::int32_t partitions_;
  Clock* clock_;
  // Topics and their partitions never change once they are there. Those made in a transaction that failed are
  // forgotten with it.
  std::unordered_map<std::string, std::vector<Partition>> topics_;
  std::vector<Partition*> touched_;  // partitions of the batch being written
  std::string headers_json_;
  BatchMark mark_;
};

}  // namespace sealane::journal
