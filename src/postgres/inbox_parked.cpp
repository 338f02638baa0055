#include "postgres/inbox_parked.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "postgres/inbox_transaction.hpp"

namespace sealane::postgres {
namespace {

/// What the end of a retry needs to know about the row that it holds.
struct HeldMessage {
  std::int64_t place = 0;
  EventId id;
  Timestamp filed_at{};
  std::string hash;
  std::string unit;
  PartitionOffset source = {};  // where the broker had it
  std::optional<AggregateName> aggregate;
};

class RetryTransaction final : public InboxTransaction {
 public:
  RetryTransaction(const InboxSession& session, HeldMessage held, std::int64_t version_seen)
      : InboxTransaction(session, Answers::kAtOnce), held_(std::move(held)) {
    mutable_standings().push_back({.version_seen = version_seen});
  }

  Status Finish(std::span<const Outcome> outcomes) override {
    if (outcomes.size() != 1) return OutcomesDiffer(outcomes.size(), 1);
    const Outcome& outcome = outcomes.front();
    std::vector<Call> calls;
    switch (outcome.kind) {
      case Outcome::Kind::kProcessed:
      case Outcome::Kind::kIgnored:
        calls.push_back(session().Function("inbox_unpark"));
        calls.back().Int8(held_.place);
        calls.push_back(session().Function("inbox_wake"));
        calls.back().Texts(std::vector<std::string>{held_.unit}, UnitToText);
        AddReceipt(outcome.kind == Outcome::Kind::kProcessed ? InboxState::kProcessed : InboxState::kIgnored,
                   outcome.code, {}, calls);
        break;
      case Outcome::Kind::kParked:
        Repark(&outcome.park, calls);
        AddReceipt(outcome.park.state, outcome.park.error_code, outcome.park.error_message, calls);
        break;
      case Outcome::Kind::kNothing:
        Repark(nullptr, calls);
        break;
    }
    if (outcome.version_seen && held_.aggregate) {
      const VersionChange change{held_.aggregate->tenant, held_.aggregate->type, held_.aggregate->id,
                                 *outcome.version_seen};
      calls.push_back(SetVersionsCall(session(), {&change, 1}));
    }
    return Commit(std::move(calls));
  }

 private:
  void Repark(const ParkNote* note, std::vector<Call>& calls) const {
    using Number = std::optional<std::int64_t>;
    calls.push_back(session().Function("inbox_repark"));
    Call& call = calls.back();
    call.Int8(held_.place);
    call.Text(note == nullptr ? std::nullopt : std::optional(ToString(note->state)));
    call.Int4(note == nullptr ? std::nullopt : std::optional(note->attempts));
    call.Int8(note == nullptr || !note->retry_after ? std::nullopt : Number(note->retry_after->count()));
    call.Text(note == nullptr ? std::nullopt : ColumnOf(note->error_code));
    call.Text(note == nullptr ? std::nullopt : ColumnOf(note->error_message));
  }

  void AddReceipt(InboxState state, std::string_view code, std::string_view message, std::vector<Call>& calls) const {
    if (session().mode != InboxMode::kRecord) return;
    const ReceiptChange change{.id = held_.id,
                               .filed_at = held_.filed_at,
                               .hash = held_.hash,
                               .state = ToString(state),
                               .code = ColumnOf(code),
                               .message = ColumnOf(message)};
    calls.push_back(MarkCall(session(), {&change, 1}));
  }

  HeldMessage held_;
};

EventId IdAt(const PgResult& result, int row, int column) {
  const auto id = EventId::Parse(TextAt(result, row, column));
  SEALANE_ASSERT(id.has_value(), "an id column holds an id");
  return *id;
}

/// The columns of inbox_hold().
enum Column : int {
  kTopic,
  kPartition,
  kOffset,
  kPublishedAt,
  kKey,
  kValue,
  kHeaders,
  kEventId,
  kFiledAt,
  kHash,
  kState,
  kParkedAt,
  kFirstFailedAt,
  kGapOverdue,
  kTenant,
  kAggregateType,
  kAggregateId,
  kVersionSeen,
};

Result<ReceivedMessage> ReadMessage(const PgResult& row) {
  SEALANE_ASSIGN_OR_RETURN(Headers headers, HeadersFromBytes(BytesAt(row, 0, kHeaders)));
  return ReceivedMessage{
      .partition = {std::string(TextAt(row, 0, kTopic)), static_cast<std::int32_t>(IntAt(row, 0, kPartition))},
      .offset = IntAt(row, 0, kOffset),
      .published_at = TimeAt(row, 0, kPublishedAt),
      .key = BytesAt(row, 0, kKey),
      .value = BytesAt(row, 0, kValue),
      .headers = std::move(headers)};
}

}  // namespace

Result<std::vector<std::string>> InboxParked::DueUnits(bool by_version, std::size_t limit) const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  const auto limit_max = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, session_.Function("inbox_due_units")
                                                      .Bool(by_version)
                                                      .Int8(static_cast<std::int64_t>(std::min(limit, limit_max)))
                                                      .Run(session_.get()));
  std::vector<std::string> units;
  for (int row = 0; row < PQntuples(result.get()); ++row) units.push_back(UnitFromText(TextAt(result, row, 0)));
  return units;
}

Result<std::optional<RetryBatch>> InboxParked::OpenRetry(const std::string& unit, bool by_version,
                                                         std::chrono::milliseconds patience) const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  // Alone, so that it is committed before anything can go wrong.
  Call counting = session_.Function("inbox_claim");
  counting.Text(UnitToText(unit)).Bool(by_version).Int8(patience.count());
  SEALANE_ASSIGN_OR_RETURN(const PgResult claim, session_.Run(std::move(counting)));
  if (PQntuples(claim.get()) == 0) return std::optional<RetryBatch>();
  const std::int64_t place = IntAt(claim, 0, 0);
  const auto attempts = static_cast<std::int32_t>(IntAt(claim, 0, 1));

  std::vector<Call> calls = {session_.Function("inbox_hold")};
  calls.back().Int8(place).Int4(attempts).Bool(by_version);
  calls.emplace_back(kSavepoint);
  SEALANE_ASSIGN_OR_RETURN(const std::vector<PgResult> results, session_.Begin(std::move(calls)));
  const PgResult& row = results.front();
  if (PQntuples(row.get()) == 0) {
    session_.RollBack();
    return std::optional<RetryBatch>();
  }

  HeldMessage held{
      .place = place,
      .id = IdAt(row, 0, kEventId),
      .filed_at = TimeAt(row, 0, kFiledAt),
      .hash = BytesAt(row, 0, kHash),
      .unit = unit,
      .source = {{std::string(TextAt(row, 0, kTopic)), static_cast<std::int32_t>(IntAt(row, 0, kPartition))},
                 IntAt(row, 0, kOffset)},
      .aggregate = {}};
  if (!IsNull(row, 0, kAggregateType) && !IsNull(row, 0, kAggregateId)) {
    held.aggregate = AggregateName{std::string(TextAt(row, 0, kTenant)), std::string(TextAt(row, 0, kAggregateType)),
                                   std::string(TextAt(row, 0, kAggregateId))};
  }
  RetryBatch retry;
  retry.id = held.id;
  retry.unit = unit;
  retry.state = ParseInboxState(TextAt(row, 0, kState)).value_or(InboxState::kFailed);
  retry.attempts = attempts;
  retry.parked_at = TimeAt(row, 0, kParkedAt);
  if (!IsNull(row, 0, kFirstFailedAt)) retry.first_failed_at = TimeAt(row, 0, kFirstFailedAt);
  retry.gap_overdue = TextAt(row, 0, kGapOverdue) == "t";
  retry.version_seen = IntAt(row, 0, kVersionSeen);
  // Made before the message is read: it ends the transaction when that fails.
  retry.batch = std::make_unique<RetryTransaction>(session_, std::move(held), retry.version_seen);
  SEALANE_ASSIGN_OR_RETURN(retry.message, ReadMessage(row));
  return std::optional<RetryBatch>(std::move(retry));
}

Result<InboxCounts> InboxParked::Count() const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  SEALANE_ASSIGN_OR_RETURN(const PgResult result,
                           session_.Function("inbox_count").Int8(InboxCounts::kCountMax).Run(session_.get()));
  return InboxCounts{.parked = IntAt(result, 0, 0), .dead = IntAt(result, 0, 1), .gaps = IntAt(result, 0, 2)};
}

}  // namespace sealane::postgres
