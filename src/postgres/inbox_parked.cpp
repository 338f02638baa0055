#include "postgres/inbox_parked.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
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
  std::int64_t version_seen = 0;
};

/// Parked messages that are tried again.
class RetryTransaction final : public InboxTransaction {
 public:
  RetryTransaction(const InboxSession& session, std::vector<HeldMessage> held)
      : InboxTransaction(session, Answers::kAtOnce), held_(std::move(held)) {
    for (const HeldMessage& one : held_) mutable_standings().push_back({.version_seen = one.version_seen});
  }

  Status Finish(std::span<const Outcome> outcomes) override {
    if (outcomes.size() != held_.size()) return OutcomesDiffer(outcomes.size(), held_.size());
    std::vector<Call> calls;
    std::vector<std::int64_t> done;
    std::vector<std::int64_t> untried;
    std::set<std::string> woken;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      switch (outcomes[i].kind) {
        case Outcome::Kind::kProcessed:
        case Outcome::Kind::kIgnored:
          done.push_back(held_[i].place);
          woken.insert(held_[i].unit);
          break;
        case Outcome::Kind::kParked:
          calls.push_back(ReparkCall(held_[i], outcomes[i].park));
          break;
        case Outcome::Kind::kNothing:
          untried.push_back(held_[i].place);
          break;
      }
    }
    const auto self = [](std::int64_t place) { return place; };
    if (!done.empty()) {
      calls.push_back(session().Function("inbox_unpark_all"));
      calls.back().Int8s(done, self);
      calls.push_back(session().Function("inbox_wake"));
      calls.back().Texts(woken, UnitToText);
    }
    if (!untried.empty()) {
      calls.push_back(session().Function("inbox_unclaim"));
      calls.back().Int8s(untried, self);
    }
    AddReceipts(outcomes, calls);
    AddVersions(outcomes, calls);
    return Commit(std::move(calls));
  }

 private:
  Call ReparkCall(const HeldMessage& held, const ParkNote& note) const {
    Call call = session().Function("inbox_repark");
    call.Int8(held.place)
        .Text(ToString(note.state))
        .Int4(note.attempts)
        .Int8(note.retry_after ? std::optional<std::int64_t>(note.retry_after->count()) : std::nullopt)
        .Text(ColumnOf(note.error_code))
        .Text(ColumnOf(note.error_message));
    return call;
  }

  void AddReceipts(std::span<const Outcome> outcomes, std::vector<Call>& calls) const {
    if (session().mode != InboxMode::kRecord) return;
    std::vector<ReceiptChange> changes;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const Outcome& outcome = outcomes[i];
      if (outcome.kind == Outcome::Kind::kNothing) continue;
      ReceiptChange& change = changes.emplace_back();
      change.id = held_[i].id;
      change.filed_at = held_[i].filed_at;
      change.hash = held_[i].hash;
      if (outcome.kind == Outcome::Kind::kParked) {
        change.state = ToString(outcome.park.state);
        change.code = ColumnOf(outcome.park.error_code);
        change.message = ColumnOf(outcome.park.error_message);
      } else {
        const bool processed = outcome.kind == Outcome::Kind::kProcessed;
        change.state = ToString(processed ? InboxState::kProcessed : InboxState::kIgnored);
        change.code = ColumnOf(outcome.code);
      }
    }
    if (!changes.empty()) calls.push_back(MarkCall(session(), changes));
  }

  void AddVersions(std::span<const Outcome> outcomes, std::vector<Call>& calls) const {
    std::map<std::tuple<std::string_view, std::string_view, std::string_view>, std::int64_t> versions;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      if (!outcomes[i].version_seen || !held_[i].aggregate) continue;
      const AggregateName& name = *held_[i].aggregate;
      std::int64_t& version = versions[{name.tenant, name.type, name.id}];
      version = std::max(version, *outcomes[i].version_seen);
    }
    std::vector<VersionChange> changes;
    for (const auto& [name, version] : versions) {
      const auto& [tenant, type, id] = name;
      changes.push_back({tenant, type, id, version});
    }
    if (!changes.empty()) calls.push_back(SetVersionsCall(session(), changes));
  }

  std::vector<HeldMessage> held_;
};

EventId IdAt(const PgResult& result, int row, int column) {
  const auto id = EventId::Parse(TextAt(result, row, column));
  SEALANE_ASSERT(id.has_value(), "an id column holds an id");
  return *id;
}

/// The columns of inbox_hold(), and those that inbox_hold_all() has besides.
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
  kPlace,
  kUnit,
  kAttempts,
};

Result<ReceivedMessage> ReadMessage(const PgResult& rows, int row) {
  SEALANE_ASSIGN_OR_RETURN(Headers headers, HeadersFromBytes(BytesAt(rows, row, kHeaders)));
  return ReceivedMessage{
      .partition = {std::string(TextAt(rows, row, kTopic)), static_cast<std::int32_t>(IntAt(rows, row, kPartition))},
      .offset = IntAt(rows, row, kOffset),
      .published_at = TimeAt(rows, row, kPublishedAt),
      .key = BytesAt(rows, row, kKey),
      .value = BytesAt(rows, row, kValue),
      .headers = std::move(headers)};
}

HeldMessage ReadHeld(const PgResult& rows, int row, std::int64_t place, std::string unit) {
  HeldMessage held{
      .place = place,
      .id = IdAt(rows, row, kEventId),
      .filed_at = TimeAt(rows, row, kFiledAt),
      .hash = BytesAt(rows, row, kHash),
      .unit = std::move(unit),
      .source = {{std::string(TextAt(rows, row, kTopic)), static_cast<std::int32_t>(IntAt(rows, row, kPartition))},
                 IntAt(rows, row, kOffset)},
      .aggregate = {},
      .version_seen = IntAt(rows, row, kVersionSeen)};
  if (!IsNull(rows, row, kAggregateType) && !IsNull(rows, row, kAggregateId)) {
    held.aggregate =
        AggregateName{std::string(TextAt(rows, row, kTenant)), std::string(TextAt(rows, row, kAggregateType)),
                      std::string(TextAt(rows, row, kAggregateId))};
  }
  return held;
}

/// All of it but the message itself.
RetryMessage ReadRetry(const PgResult& rows, int row, const HeldMessage& held, std::int32_t attempts) {
  RetryMessage retry;
  retry.id = held.id;
  retry.unit = held.unit;
  retry.state = ParseInboxState(TextAt(rows, row, kState)).value_or(InboxState::kFailed);
  retry.attempts = attempts;
  retry.parked_at = TimeAt(rows, row, kParkedAt);
  if (!IsNull(rows, row, kFirstFailedAt)) retry.first_failed_at = TimeAt(rows, row, kFirstFailedAt);
  retry.gap_overdue = TextAt(rows, row, kGapOverdue) == "t";
  retry.version_seen = held.version_seen;
  return retry;
}

std::int64_t Bounded(std::size_t limit) {
  constexpr auto kMax = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(std::min(limit, kMax));
}

}  // namespace

Result<InboxLook> InboxParked::Look(bool by_version, std::size_t limit) const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  SEALANE_ASSIGN_OR_RETURN(const PgResult rows,
                           session_.Function("inbox_look").Bool(by_version).Int8(Bounded(limit)).Run(session_.get()));
  InboxLook look;
  for (int row = 0; row < PQntuples(rows.get()); ++row) {
    if (!IsNull(rows, row, 0)) {
      look.due.push_back(UnitFromText(TextAt(rows, row, 0)));
      continue;
    }
    if (!IsNull(rows, row, 1)) look.next_due = std::chrono::milliseconds{IntAt(rows, row, 1)};
    if (!IsNull(rows, row, 2)) look.pause = std::string(TextAt(rows, row, 2));
    if (!IsNull(rows, row, 3)) {
      look.hold = ConsumerHold{std::string(TextAt(rows, row, 3)), std::string(TextAt(rows, row, 4))};
    }
  }
  return look;
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
  HeldMessage held = ReadHeld(row, 0, place, unit);
  RetryBatch retry;
  static_cast<RetryMessage&>(retry) = ReadRetry(row, 0, held, attempts);
  // Made before the message is read: it ends the transaction when that fails.
  std::vector<HeldMessage> all;
  all.push_back(std::move(held));
  retry.batch = std::make_unique<RetryTransaction>(session_, std::move(all));
  SEALANE_ASSIGN_OR_RETURN(retry.message, ReadMessage(row, 0));
  return std::optional<RetryBatch>(std::move(retry));
}

Result<RetryGroup> InboxParked::OpenRetries(std::span<const std::string> units, bool by_version,
                                            std::chrono::milliseconds patience) const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  RetryGroup group;
  if (units.empty()) return group;
  Call counting = session_.Function("inbox_claim_all");
  counting.Texts(units, UnitToText).Bool(by_version).Int8(patience.count());
  SEALANE_ASSIGN_OR_RETURN(const PgResult claim, session_.Run(std::move(counting)));
  std::vector<std::int64_t> places;
  for (int row = 0; row < PQntuples(claim.get()); ++row) places.push_back(IntAt(claim, row, 0));
  if (places.empty()) return group;

  std::vector<Call> calls = {session_.Function("inbox_hold_all")};
  calls.back().Int8s(places, [](std::int64_t place) { return place; }).Bool(by_version);
  calls.emplace_back(kSavepoint);
  SEALANE_ASSIGN_OR_RETURN(const std::vector<PgResult> results, session_.Begin(std::move(calls)));
  const PgResult& rows = results.front();
  std::vector<HeldMessage> held;
  for (int row = 0; row < PQntuples(rows.get()); ++row) {
    held.push_back(ReadHeld(rows, row, IntAt(rows, row, kPlace), UnitFromText(TextAt(rows, row, kUnit))));
    group.messages.push_back(
        ReadRetry(rows, row, held.back(), static_cast<std::int32_t>(IntAt(rows, row, kAttempts))));
  }
  if (held.empty()) {
    session_.RollBack();
    return group;
  }
  group.batch = std::make_unique<RetryTransaction>(session_, std::move(held));
  for (std::size_t i = 0; i < group.messages.size(); ++i) {
    SEALANE_ASSIGN_OR_RETURN(group.messages[i].message, ReadMessage(rows, static_cast<int>(i)));
  }
  return group;
}

Status InboxParked::SetHold(const std::optional<ConsumerHold>& hold) const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  Call call = session_.Function("inbox_set_hold");
  call.Text(hold ? std::optional<std::string_view>(hold->code) : std::nullopt);
  call.Text(hold ? std::optional<std::string>(FitForColumn(hold->message)) : std::nullopt);
  SEALANE_RETURN_IF_ERROR(session_.Run(std::move(call)));
  return Ok();
}

Result<InboxCounts> InboxParked::Count(std::int64_t count_max) const {
  SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
  SEALANE_ASSIGN_OR_RETURN(const PgResult result,
                           session_.Function("inbox_count").Int8(count_max).Run(session_.get()));
  return InboxCounts{.parked = IntAt(result, 0, 0), .dead = IntAt(result, 0, 1), .gaps = IntAt(result, 0, 2)};
}

}  // namespace sealane::postgres
