#include "sqlite/inbox_batch.hpp"

#include <set>
#include <utility>

#include <fmt/format.h>

namespace sealane::sqlite {
namespace {

/// Seen with these very bytes, so that nothing can become of it any more.
bool IsKnown(Standing::Known known) {
  return known == Standing::Known::kDone || known == Standing::Known::kParked;
}

}  // namespace

SqliteInboxBatch::SqliteInboxBatch(std::shared_ptr<InboxSession> session, WriteTransaction transaction)
    : session_(std::move(session)),
      transaction_(std::move(transaction)),
      rows_(*session_),
      producer_(session_->connection.get()) {
  session_->handlers_work = true;
}

SqliteInboxBatch::~SqliteInboxBatch() {
  if (!finished_) session_->handlers_work = false;
}

Status SqliteInboxBatch::File(const BatchRequest& request) {
  progress_ = request.progress;
  if (progress_) SEALANE_RETURN_IF_ERROR(rows_.CheckProgress(*progress_));
  SEALANE_ASSIGN_OR_RETURN(anything_parked_, rows_.AnythingParked());
  SEALANE_ASSIGN_OR_RETURN(const Timestamp forgotten_before, rows_.ForgottenBefore());
  items_.reserve(request.arrivals.size());
  for (const Arrival& arrival : request.arrivals) {
    InboxItem item = InboxItem::Of(arrival);
    Standing& standing = item.standing;
    SEALANE_ASSIGN_OR_RETURN(standing.known, rows_.KnownOf(item, anything_parked_));
    if (standing.known == Standing::Known::kNew && item.filed_at < forgotten_before) {
      standing.known = Standing::Known::kTooOld;
    }
    if (anything_parked_) SEALANE_RETURN_IF_ERROR(rows_.LookAtUnit(item, request.guard_versions, standing));
    if (request.guard_versions) {
      SEALANE_ASSIGN_OR_RETURN(standing.version_seen, rows_.VersionOf(item.aggregate));
    }
    standings_.push_back(standing);
    items_.push_back(std::move(item));
  }
  return Ok();
}

Status SqliteInboxBatch::Take(InboxItem item) {
  anything_parked_ = true;
  standings_.push_back(item.standing);
  items_.push_back(std::move(item));
  return items_.size() == 1 ? Control("SAVEPOINT sealane_handler") : Ok();
}

Status SqliteInboxBatch::Control(const std::string& sql) {
  session_->handlers_work = false;
  Status done = sqlite::Execute(session_->connection.get(), sql);
  session_->handlers_work = true;
  return done;
}

Status SqliteInboxBatch::Rewind() {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  SEALANE_RETURN_IF_ERROR(Control("ROLLBACK TO sealane_handler"));
  lost_ = false;
  return Ok();
}

Status SqliteInboxBatch::RequireOpen() const {
  if (!finished_ && session_->connection.in_transaction()) return Ok();
  return Error(ErrorKind::kMisuse, "transaction_ended",
               "the transaction of this batch has ended; nothing was written")
      .WithHint("a handler neither commits nor rolls back, and works only until it returns");
}

// ---- finishing
// ------------------------------------------------------------------------------------------------------

Status SqliteInboxBatch::CheckOutcomes(std::span<const Outcome> outcomes) const {
  if (outcomes.size() != items_.size()) {
    return Error(ErrorKind::kMisuse, "outcomes_differ",
                 fmt::format("{} outcomes for {} events", outcomes.size(), items_.size()))
        .WithHint("say what became of each event of the batch, in their order");
  }
  if (lost_) {
    return Error(ErrorKind::kMisuse, "transaction_lost", "a call in this transaction failed; nothing was written")
        .WithHint("give the error of the call on instead of finishing the batch");
  }
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (outcomes[i].kind == Outcome::Kind::kNothing || !IsKnown(items_[i].standing.known)) continue;
    return Error(ErrorKind::kMisuse, "event_known",
                 fmt::format("event {} was known already: it has an outcome", items_[i].id.ToString()))
        .WithHint("the outcome of an event that was seen before is kNothing");
  }
  return Ok();
}

Status SqliteInboxBatch::Finish(std::span<const Outcome> outcomes) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  SEALANE_RETURN_IF_ERROR(CheckOutcomes(outcomes));
  SEALANE_ASSIGN_OR_RETURN(const Timestamp now, session_->Now());
  for (std::size_t i = 0; i < items_.size(); ++i) {
    SEALANE_RETURN_IF_ERROR(Noted(Write(items_[i], outcomes[i], now)));
  }
  SEALANE_RETURN_IF_ERROR(Noted(ClearSuspicions()));
  if (progress_) SEALANE_RETURN_IF_ERROR(Noted(Move(outcomes)));
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t writes, rows_.CountWrite());
  finished_ = true;
  session_->handlers_work = false;
  SEALANE_RETURN_IF_ERROR(transaction_.Commit());
  session_->memory->Wrote(writes);
  return Ok();
}

Status SqliteInboxBatch::Write(const InboxItem& item, const Outcome& outcome, Timestamp now) {
  if (outcome.version_seen) SEALANE_RETURN_IF_ERROR(rows_.SetVersion(item.aggregate, *outcome.version_seen));
  switch (outcome.kind) {
    case Outcome::Kind::kNothing:
      break;
    case Outcome::Kind::kProcessed:
      return WriteFinished(item, InboxState::kProcessed, "", now);
    case Outcome::Kind::kIgnored:
      return WriteFinished(item, InboxState::kIgnored, outcome.code, now);
    case Outcome::Kind::kParked:
      return WriteParked(item, outcome.park, now);
  }
  return item.place != 0 ? rows_.Unclaim(item.place) : Ok();
}

bool SqliteInboxBatch::HasOwnReceipt(const InboxItem& item) const {
  return session_->mode == InboxMode::kRecord && item.standing.known != Standing::Known::kOtherBytes;
}

Status SqliteInboxBatch::WriteFinished(const InboxItem& item, InboxState state, std::string_view code,
                                       Timestamp now) {
  const bool records = session_->mode == InboxMode::kRecord;
  if (item.place != 0) {
    SEALANE_RETURN_IF_ERROR(rows_.Unpark(item.place));
    if (records) SEALANE_RETURN_IF_ERROR(rows_.UpdateReceipt(item, state, code, "", now));
  } else if (HasOwnReceipt(item)) {
    SEALANE_RETURN_IF_ERROR(rows_.WriteReceipt(item, state, code, "", now));
  }
  return anything_parked_ ? rows_.WakeGaps(item.unit, now) : Ok();
}

Status SqliteInboxBatch::WriteParked(const InboxItem& item, const ParkNote& note, Timestamp now) {
  anything_parked_ = true;
  const bool records = session_->mode == InboxMode::kRecord;
  if (item.place != 0) {
    SEALANE_RETURN_IF_ERROR(rows_.ParkAgain(item.place, note, now));
    return records ? rows_.UpdateReceipt(item, note.state, note.error_code, note.error_message, now) : Ok();
  }
  SEALANE_RETURN_IF_ERROR(rows_.Park(item, note, now));
  if (!HasOwnReceipt(item)) return Ok();
  return rows_.WriteReceipt(item, note.state, note.error_code, note.error_message, now);
}

Status SqliteInboxBatch::ClearSuspicions() {
  std::set<Partition> partitions;
  for (const InboxItem& item : items_) partitions.insert(item.partition);
  for (const Partition& partition : partitions) {
    SEALANE_ASSIGN_OR_RETURN(const auto suspect, rows_.SuspectOf(partition));
    if (!suspect) continue;
    for (const InboxItem& item : items_) {
      if (item.partition != partition || item.offset != *suspect) continue;
      SEALANE_RETURN_IF_ERROR(rows_.ClearSuspect(partition));
      break;
    }
  }
  return Ok();
}

Status SqliteInboxBatch::Move(std::span<const Outcome> outcomes) {
  std::vector<EventId> finished;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    // What is set aside too: a repetition that comes after its retry meets an owner who knows nothing of that.
    if (outcomes[i].kind != Outcome::Kind::kNothing) finished.push_back(items_[i].id);
  }
  SEALANE_RETURN_IF_ERROR(rows_.MoveProgress(*progress_));
  SEALANE_RETURN_IF_ERROR(rows_.Remember(progress_->partition, progress_->to, finished));
  if (!progress_->forget_through) return Ok();
  return rows_.ForgetThrough(progress_->partition, *progress_->forget_through);
}

// ---- what handlers do
// -----------------------------------------------------------------------------------------------

Result<BookedStatement> SqliteInboxBatch::Prepare(const std::string& sql, std::span<const SqlValue> values) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  SEALANE_ASSIGN_OR_RETURN(BookedStatement statement, session_->handler_statements.Take(sql));
  if (static_cast<std::size_t>(statement->parameters()) != values.size()) {
    return Error(ErrorKind::kMisuse, "parameters_differ",
                 fmt::format("{} values for {} parameters", values.size(), statement->parameters()))
        .WithHint("parameters are ?1, ?2 and so on, one value for each");
  }
  for (const SqlValue& value : values) {
    if (const auto* const text = std::get_if<std::string>(&value)) {
      statement->Bind(*text);
    } else if (const auto* const number = std::get_if<std::int64_t>(&value)) {
      statement->Bind(*number);
    } else if (const auto* const bytes = std::get_if<SqlBytes>(&value)) {
      statement->BindBlob(bytes->bytes);
    } else {
      statement->BindNull();
    }
  }
  return statement;
}

Result<std::int64_t> SqliteInboxBatch::Run(const std::string& sql, std::span<const SqlValue> values) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement statement, Prepare(sql, values));
  sqlite3* const connection = session_->connection.get();
  // A statement that changes no rows leaves the number of the one before.
  const std::int64_t before = sqlite3_total_changes64(connection);
  const Status ran = statement->Run();
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  if (!ran) return ran.error();
  return sqlite3_total_changes64(connection) == before ? 0 : sqlite3_changes64(connection);
}

Result<std::int64_t> SqliteInboxBatch::Execute(const std::string& sql, std::span<const SqlValue> values) {
  return Noted(Run(sql, values));
}

Result<std::vector<std::vector<std::optional<std::string>>>> SqliteInboxBatch::Fetch(const std::string& sql,
                                                                                     std::span<const SqlValue> values,
                                                                                     std::size_t rows_max) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement statement, Prepare(sql, values));
  std::vector<std::vector<std::optional<std::string>>> rows;
  while (rows.size() < rows_max) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, statement->Step());
    if (!found) break;
    auto& row = rows.emplace_back();
    for (int column = 0; column < statement->columns(); ++column) {
      row.push_back(statement->IsNull(column) ? std::nullopt : std::optional(statement->Text(column)));
    }
  }
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  return rows;
}

Result<std::vector<std::vector<std::optional<std::string>>>> SqliteInboxBatch::Query(const std::string& sql,
                                                                                     std::span<const SqlValue> values,
                                                                                     std::size_t rows_max) {
  return Noted(Fetch(sql, values, rows_max));
}

Result<std::vector<Appended>> SqliteInboxBatch::Append(std::span<const NewEntry> entries) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  return Noted(producer_.Append(entries));
}
Result<std::int64_t> SqliteInboxBatch::NextVersion(const AggregateName& aggregate) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  return Noted(producer_.NextVersion(aggregate));
}
Result<std::int64_t> SqliteInboxBatch::AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  return Noted(producer_.AdvanceVersion(aggregate, expected));
}
Result<bool> SqliteInboxBatch::EnsureOnce(std::string_view scope, std::string_view key) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  return Noted(producer_.EnsureOnce(scope, key));
}
Result<IdempotencyOutcome> SqliteInboxBatch::BeginOnce(const IdempotencyClaim& claim) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  return Noted(producer_.BeginOnce(claim));
}
Status SqliteInboxBatch::CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  return Noted(producer_.CompleteOnce(claim, response));
}
Result<EnqueuedTask> SqliteInboxBatch::EnqueueTask(const NewTask& task) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  return Noted(producer_.EnqueueTask(task));
}

}  // namespace sealane::sqlite
