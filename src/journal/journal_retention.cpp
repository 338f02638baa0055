#include "journal/journal_retention.hpp"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "journal/database.hpp"
#include "journal/message_size.hpp"
#include "journal/schema.hpp"

namespace sealane {

using journal::Database;
using journal::Query;
using journal::RowIdOf;
using journal::WriteTransaction;

namespace {

constexpr std::int64_t kStepMessages = 1'000;
constexpr std::int64_t kStepPages = 2'000;

class Sweeper {
 public:
  Sweeper(const Database& database, const JournalRetention& retention, Clock& clock, std::stop_token stop)
      : database_(database),
        retention_(retention),
        clock_(clock),
        stop_(std::move(stop)),
        oldest_kept_(clock.Now() - retention.age_max) {}

  Result<JournalSweep> Sweep() {
    SEALANE_ASSIGN_OR_RETURN(
        candidates_, database_.Prepare("SELECT place, published_at, length(CAST(key AS BLOB)), length(value), "
                                       "length(CAST(headers AS BLOB)) FROM journal_messages "
                                       "WHERE place >= ? AND place < ? ORDER BY place LIMIT ?"));
    SEALANE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> partitions, Partitions());
    for (const std::int64_t partition : partitions) {
      bool more = true;
      while (more) {
        if (stop_.stop_requested()) return total_;
        SEALANE_ASSIGN_OR_RETURN(more, SweepStep(partition));
        if (more) LetOthersIn();
      }
    }
    SEALANE_RETURN_IF_ERROR(GiveSpaceBack());
    return total_;
  }

 private:
  void LetOthersIn() {
    if (retention_.step_pause.count() > 0) clock_.SleepFor(retention_.step_pause, stop_);
  }

  Status GiveSpaceBack() {
    static const std::string step = fmt::format("PRAGMA incremental_vacuum({})", kStepPages);
    std::int64_t before = std::numeric_limits<std::int64_t>::max();
    while (!stop_.stop_requested()) {
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t free_pages, database_.Number("PRAGMA freelist_count"));
      // A file that was not made by us may not be able to shrink.
      if (free_pages == 0 || free_pages >= before) break;
      before = free_pages;
      SEALANE_RETURN_IF_ERROR(database_.Execute(step.c_str()));
      if (free_pages > kStepPages) LetOthersIn();
    }
    return Ok();
  }

  Result<std::vector<std::int64_t>> Partitions() {
    SEALANE_ASSIGN_OR_RETURN(Query query, database_.Prepare("SELECT partition_id FROM journal_partitions"));
    std::vector<std::int64_t> partitions;
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return partitions;
      partitions.push_back(query.Int(0));
    }
  }

  // Removes a bounded number; true when there may be more to remove.
  Result<bool> SweepStep(std::int64_t partition) {
    SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(database_));
    SEALANE_ASSIGN_OR_RETURN(
        Query state,
        database_.Prepare("SELECT p.first_offset, p.next_offset, p.bytes, (SELECT min(g.next_offset) FROM "
                          "journal_group_offsets g WHERE g.partition_id = p.partition_id) "
                          "FROM journal_partitions p WHERE p.partition_id = ?"));
    SEALANE_RETURN_IF_ERROR(state.Bind(partition).Step());
    const std::int64_t first = state.Int(0);
    const std::int64_t bytes = state.Int(2);
    const bool has_readers = !state.IsNull(3) && retention_.spare_unread;
    const std::int64_t end = has_readers ? state.Int(3) : state.Int(1);
    state.Reset();

    std::int64_t keep_from = first;
    std::int64_t freed = 0;
    candidates_.Reset();
    candidates_.Bind(RowIdOf(partition, first)).Bind(RowIdOf(partition, end)).Bind(kStepMessages);
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool row, candidates_.Step());
      if (!row) break;
      const bool too_old = candidates_.Time(1) < oldest_kept_;
      if (!too_old && bytes - freed <= retention_.partition_bytes_max) break;
      keep_from = candidates_.Int(0) - RowIdOf(partition, 0) + 1;
      freed += journal::StoredSize(Size(2), Size(3), Size(4));
    }
    candidates_.Reset();
    if (keep_from == first) return false;
    SEALANE_RETURN_IF_ERROR(Remove(partition, first, keep_from, freed));
    SEALANE_RETURN_IF_ERROR(transaction.Commit());
    total_.messages += keep_from - first;
    total_.bytes += freed;
    return keep_from - first == kStepMessages;
  }

  std::size_t Size(int column) const { return static_cast<std::size_t>(candidates_.Int(column)); }

  Status Remove(std::int64_t partition, std::int64_t from, std::int64_t to, std::int64_t bytes) const {
    SEALANE_ASSIGN_OR_RETURN(Query remove,
                             database_.Prepare("DELETE FROM journal_messages WHERE place >= ? AND place < ?"));
    SEALANE_RETURN_IF_ERROR(remove.Bind(RowIdOf(partition, from)).Bind(RowIdOf(partition, to)).Run());
    SEALANE_ASSIGN_OR_RETURN(Query move, database_.Prepare("UPDATE journal_partitions SET first_offset = ?, "
                                                           "bytes = bytes - ? WHERE partition_id = ?"));
    return move.Bind(to).Bind(bytes).Bind(partition).Run();
  }

  const Database& database_;
  const JournalRetention& retention_;
  Clock& clock_;
  const std::stop_token stop_;
  const Timestamp oldest_kept_;
  Query candidates_;
  JournalSweep total_;
};

}  // namespace

Result<JournalSweep> SweepJournal(const JournalOptions& options, const JournalRetention& retention, Clock& clock,
                                  std::stop_token stop) {
  SEALANE_ASSIGN_OR_RETURN(const Database database,
                           Database::Open(options.path, Database::IfMissing::kFail, options.busy_patience, clock));
  return Sweeper(database, retention, clock, std::move(stop)).Sweep();
}

}  // namespace sealane
