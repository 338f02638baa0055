#include "postgres/inbox_batch.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "postgres/inbox_transaction.hpp"

namespace sealane::postgres {
namespace {

using Known = Standing::Known;

std::string_view HashOf(const Arrival& arrival) {
  return Call::View(arrival.hash);
}

/// A text of the envelope that the table has null for when it is not given.
auto OptionalField(std::string Envelope::*field) {
  return [field](const Arrival& arrival) -> std::optional<std::string_view> {
    if (arrival.envelope == nullptr || (arrival.envelope->*field).empty()) return std::nullopt;
    return arrival.envelope->*field;
  };
}

auto AggregateField(std::string Aggregate::*field) {
  return [field](const Arrival& arrival) -> std::optional<std::string_view> {
    if (arrival.envelope == nullptr || (arrival.envelope->aggregate.*field).empty()) return std::nullopt;
    return arrival.envelope->aggregate.*field;
  };
}

/// An aggregate may go without a type, but not without an id.
std::optional<std::string_view> CountedType(const Arrival& arrival) {
  if (arrival.envelope == nullptr || arrival.envelope->aggregate.id.empty()) return std::nullopt;
  return arrival.envelope->aggregate.type;
}

std::optional<std::int64_t> VersionOf(const Arrival& arrival) {
  return arrival.envelope == nullptr ? std::nullopt : arrival.envelope->aggregate.version;
}

/// Whether the arrival is a state of an aggregate that can be counted.
bool HasVersion(const Arrival& arrival) {
  return VersionOf(arrival) && !arrival.envelope->aggregate.id.empty();
}

Known KnownOf(std::string_view fact) {
  if (fact == "done") return Known::kDone;
  if (fact == "parked") return Known::kParked;
  return fact == "other" ? Known::kOtherBytes : Known::kTooOld;
}

bool HasOwnReceipt(Known known) {
  return known == Known::kNew || known == Known::kTooOld;
}

bool IsDone(const Outcome& outcome) {
  return outcome.kind == Outcome::Kind::kProcessed || outcome.kind == Outcome::Kind::kIgnored;
}

template <class Range>
Call& AddCoordinates(Call& call, const Range& arrivals) {
  return call.Texts(arrivals, [](const Arrival& a) { return std::string_view(a.message->partition.topic); })
      .Int4s(arrivals, [](const Arrival& a) { return a.message->partition.number; })
      .Int8s(arrivals, [](const Arrival& a) { return a.message->offset; });
}

Call FileCall(const InboxSession& session, std::span<const Arrival> arrivals) {
  Call call = session.Function("inbox_file");
  call.Uuids(arrivals, [](const Arrival& a) { return a.id; })
      .Times(arrivals, [](const Arrival& a) { return a.filed_at; })
      .Byteas(arrivals, HashOf);
  AddCoordinates(call, arrivals)
      .Texts(arrivals, OptionalField(&Envelope::type))
      .Int4s(arrivals,
             [](const Arrival& a) {
               return a.envelope == nullptr ? std::nullopt : std::optional(a.envelope->schema_version);
             })
      .Texts(arrivals, OptionalField(&Envelope::tenant))
      .Texts(arrivals, AggregateField(&Aggregate::type))
      .Texts(arrivals, AggregateField(&Aggregate::id))
      .Int8s(arrivals, VersionOf)
      .Texts(arrivals, OptionalField(&Envelope::correlation_id));
  return call;
}

/// The aggregates of arrivals that are states of one; null for the others.
Call& AddAggregates(Call& call, std::span<const Arrival> arrivals) {
  return call
      .Texts(arrivals,
             [](const Arrival& a) {
               return HasVersion(a) ? std::optional<std::string_view>(a.envelope->tenant) : std::nullopt;
             })
      .Texts(arrivals,
             [](const Arrival& a) {
               return HasVersion(a) ? std::optional<std::string_view>(a.envelope->aggregate.type) : std::nullopt;
             })
      .Texts(arrivals, [](const Arrival& a) {
        return HasVersion(a) ? std::optional<std::string_view>(a.envelope->aggregate.id) : std::nullopt;
      });
}

Call WaitsCall(const InboxSession& session, const BatchRequest& request) {
  Call call = session.Function("inbox_waits");
  call.Texts(request.arrivals, [](const Arrival& a) { return UnitToText(a.unit); }).Bool(request.guard_versions);
  AddAggregates(call, request.arrivals);
  // With receipts those tell it already.
  const bool ask = session.mode == InboxMode::kOffsets;
  call.Uuids(request.arrivals, [ask](const Arrival& a) { return ask ? std::optional(a.id) : std::nullopt; })
      .Byteas(request.arrivals, [ask](const Arrival& a) { return ask ? std::optional(HashOf(a)) : std::nullopt; });
  return call;
}

Call LockVersionsCall(const InboxSession& session, std::span<const Arrival> arrivals) {
  Call call = session.Function("inbox_lock_versions");
  AddAggregates(call, arrivals);
  return call;
}

/// A message on its way to the parked ones.
struct Parking {
  const Arrival* arrival;
  const ParkNote* note;
};

Call ParkCall(const InboxSession& session, std::span<const Parking> parkings) {
  const auto of_arrival = [](auto field) { return [field](const Parking& p) { return field(*p.arrival); }; };
  Call call = session.Function("inbox_park");
  call.Uuids(parkings, [](const Parking& p) { return p.arrival->id; })
      .Times(parkings, [](const Parking& p) { return p.arrival->filed_at; })
      .Byteas(parkings, of_arrival(HashOf))
      .Texts(parkings,
             [](const Parking& p) { return UnitToText(p.note->unit.empty() ? p.arrival->unit : p.note->unit); })
      .Texts(parkings, [](const Parking& p) { return std::string_view(p.arrival->message->partition.topic); })
      .Int4s(parkings, [](const Parking& p) { return p.arrival->message->partition.number; })
      .Int8s(parkings, [](const Parking& p) { return p.arrival->message->offset; })
      .Times(parkings, [](const Parking& p) { return p.arrival->message->published_at; })
      .Byteas(parkings, [](const Parking& p) { return std::string_view(p.arrival->message->key); })
      .Byteas(parkings, [](const Parking& p) { return std::string_view(p.arrival->message->value); })
      .Byteas(parkings, [](const Parking& p) { return HeadersToBytes(p.arrival->message->headers); })
      .Texts(parkings, of_arrival(OptionalField(&Envelope::type)))
      .Texts(parkings, of_arrival(OptionalField(&Envelope::tenant)))
      .Texts(parkings, of_arrival(CountedType))
      .Texts(parkings, of_arrival(AggregateField(&Aggregate::id)))
      .Int8s(parkings, of_arrival(VersionOf))
      .Texts(parkings, [](const Parking& p) { return ToString(p.note->state); })
      .Int4s(parkings, [](const Parking& p) { return p.note->attempts; })
      .Int8s(parkings,
             [](const Parking& p) {
               return p.note->retry_after ? std::optional<std::int64_t>(p.note->retry_after->count()) : std::nullopt;
             })
      .Texts(parkings, [](const Parking& p) { return ColumnOf(p.note->error_code); })
      .Texts(parkings, [](const Parking& p) { return ColumnOf(p.note->error_message); });
  return call;
}

class ArrivalBatch final : public InboxTransaction {
 public:
  ArrivalBatch(const InboxSession& session, const BatchRequest& request)
      : InboxTransaction(session, request.answer_at_once ? Answers::kAtOnce : Answers::kLater),
        arrivals_(request.arrivals.begin(), request.arrivals.end()),
        progress_(request.progress) {
    mutable_standings().resize(arrivals_.size());
  }

  /// What inbox_file() found. kConflict when a receipt was forgotten at this very moment.
  Status ReadFiled(const PgResult& result) {
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      const std::string_view fact = TextAt(result, row, 1);
      if (fact == "vanished") {
        return Error(ErrorKind::kConflict, "receipt_vanished", "a receipt was forgotten at this very moment")
            .WithHint("open the batch again");
      }
      At(result, row).known = KnownOf(fact);
    }
    return Ok();
  }

  void ReadWaits(const PgResult& result) {
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      const std::string_view fact = TextAt(result, row, 1);
      if (fact == "suspect") {
        const PartitionOffset place{
            {std::string(TextAt(result, row, 2)), static_cast<std::int32_t>(IntAt(result, row, 3))},
            IntAt(result, row, 4)};
        const auto is_there = [&](const Arrival& arrival) {
          return arrival.message->offset == place.offset && arrival.message->partition == place.partition;
        };
        if (std::ranges::any_of(arrivals_, is_there)) suspects_.push_back(place);
      } else if (fact == "done" || fact == "parked" || fact == "other") {
        At(result, row).known = KnownOf(fact);
      } else {
        At(result, row).unit_waits = true;
        At(result, row).unit_waits_for_gap = fact == "gap";
      }
    }
  }

  void ReadVersions(const PgResult& result) {
    for (int row = 0; row < PQntuples(result.get()); ++row) At(result, row).version_seen = IntAt(result, row, 1);
  }

  Status Finish(std::span<const Outcome> outcomes) override {
    SEALANE_RETURN_IF_ERROR(CheckOutcomes(outcomes));
    std::vector<Call> calls;
    if (session().mode == InboxMode::kRecord) AddReceipts(outcomes, calls);
    AddParked(outcomes, calls);
    AddVersions(outcomes, calls);
    AddWoken(outcomes, calls);
    for (const PartitionOffset& suspect : suspects_) {
      calls.push_back(session().Function("inbox_clear_suspect"));
      calls.back().Text(suspect.partition.topic).Int4(suspect.partition.number).Int8(suspect.offset);
    }
    AddProgress(outcomes, calls);
    return Commit(std::move(calls));
  }

 private:
  Status CheckOutcomes(std::span<const Outcome> outcomes) const {
    if (outcomes.size() != arrivals_.size()) return OutcomesDiffer(outcomes.size(), arrivals_.size());
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const Known known = standings()[i].known;
      if (outcomes[i].kind == Outcome::Kind::kNothing || (known != Known::kDone && known != Known::kParked)) continue;
      return Error(ErrorKind::kMisuse, "event_known",
                   fmt::format("event {} was known already: it has an outcome", arrivals_[i].id.ToString()))
          .WithHint("the outcome of an event that was seen before is kNothing");
    }
    return Ok();
  }

  Standing& At(const PgResult& result, int row) {
    return mutable_standings().at(static_cast<std::size_t>(IntAt(result, row, 0) - 1));
  }

  /// The receipts were written as processed when the batch was opened; only the others change.
  void AddReceipts(std::span<const Outcome> outcomes, std::vector<Call>& calls) const {
    std::vector<ReceiptChange> changes;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const Outcome& outcome = outcomes[i];
      if (!HasOwnReceipt(standings()[i].known) || outcome.kind == Outcome::Kind::kProcessed) continue;
      ReceiptChange& change = changes.emplace_back();
      change.id = arrivals_[i].id;
      change.filed_at = arrivals_[i].filed_at;
      change.hash = HashOf(arrivals_[i]);
      if (outcome.kind == Outcome::Kind::kIgnored) {
        change.state = ToString(InboxState::kIgnored);
        change.code = ColumnOf(outcome.code);
      } else if (outcome.kind == Outcome::Kind::kParked) {
        change.state = ToString(outcome.park.state);
        change.code = ColumnOf(outcome.park.error_code);
        change.message = ColumnOf(outcome.park.error_message);
      }
    }
    if (!changes.empty()) calls.push_back(MarkCall(session(), changes));
  }

  void AddParked(std::span<const Outcome> outcomes, std::vector<Call>& calls) const {
    std::vector<Parking> parkings;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (outcomes[i].kind != Outcome::Kind::kParked) continue;
      parkings.push_back({&arrivals_[i], &outcomes[i].park});
    }
    if (!parkings.empty()) calls.push_back(ParkCall(session(), parkings));
  }

  void AddVersions(std::span<const Outcome> outcomes, std::vector<Call>& calls) const {
    // Several states of one aggregate may be in a batch; the last one counts.
    std::map<std::tuple<std::string_view, std::string_view, std::string_view>, std::int64_t> versions;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (!outcomes[i].version_seen || !HasVersion(arrivals_[i])) continue;
      const Envelope& envelope = *arrivals_[i].envelope;
      versions[{envelope.tenant, envelope.aggregate.type, envelope.aggregate.id}] = *outcomes[i].version_seen;
    }
    std::vector<VersionChange> changes;
    for (const auto& [name, version] : versions) {
      const auto& [tenant, type, id] = name;
      changes.push_back({tenant, type, id, version});
    }
    if (!changes.empty()) calls.push_back(SetVersionsCall(session(), changes));
  }

  /// Units that got further and in which something may wait for just that.
  void AddWoken(std::span<const Outcome> outcomes, std::vector<Call>& calls) const {
    std::set<std::string_view> waiting;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const bool gap_now = outcomes[i].kind == Outcome::Kind::kParked && outcomes[i].park.state == InboxState::kGap;
      if (standings()[i].unit_waits || gap_now) waiting.insert(arrivals_[i].unit);
    }
    std::set<std::string_view> woken;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (IsDone(outcomes[i]) && waiting.contains(arrivals_[i].unit)) woken.insert(arrivals_[i].unit);
    }
    if (woken.empty()) return;
    calls.push_back(session().Function("inbox_wake"));
    calls.back().Texts(woken, UnitToText);
  }

  void AddProgress(std::span<const Outcome> outcomes, std::vector<Call>& calls) const {
    if (!progress_) return;
    std::string recent;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      // What is set aside too: a repetition that comes after its retry meets an owner who knows nothing of that.
      if (outcomes[i].kind != Outcome::Kind::kNothing) recent += Call::View(arrivals_[i].id.bytes());
    }
    calls.push_back(session().Function("inbox_move"));
    calls.back()
        .Text(progress_->partition.topic)
        .Int4(progress_->partition.number)
        .Int8(progress_->to)
        .Bytes(recent.empty() ? std::nullopt : std::optional<std::string_view>(recent))
        .Int8(progress_->forget_through)
        .Int8(progress_->witness ? std::optional(progress_->witness->offset) : std::nullopt)
        .Bytes(progress_->witness ? std::optional<std::string_view>(progress_->witness->fingerprint) : std::nullopt);
  }

  std::vector<Arrival> arrivals_;
  std::optional<ProgressMove> progress_;
  std::vector<PartitionOffset> suspects_;
};

}  // namespace

Result<std::unique_ptr<InboxBatch>> OpenInboxBatch(const InboxSession& session, const BatchRequest& request) {
  SEALANE_RETURN_IF_ERROR(session.RequireIdle());
  const bool record = session.mode == InboxMode::kRecord;
  if (record == request.progress.has_value()) {
    return Error(ErrorKind::kMisuse, "progress_differs",
                 fmt::format("a batch in mode {} comes {} progress", ToString(session.mode),
                             record ? "without" : "with"))
        .WithHint("a position is moved exactly in the mode that has one");
  }
  if (request.progress) SEALANE_RETURN_IF_ERROR(CheckMove(*request.progress));
  const bool guard = request.guard_versions && std::ranges::any_of(request.arrivals, HasVersion);

  std::vector<Call> calls;
  if (request.progress) {
    calls.push_back(session.Function("inbox_lock_progress"));
    calls.back()
        .Text(request.progress->partition.topic)
        .Int4(request.progress->partition.number)
        .Int8(request.progress->epoch)
        .Int8(request.progress->from);
  }
  if (record) calls.push_back(FileCall(session, request.arrivals));
  calls.push_back(WaitsCall(session, request));
  if (guard) calls.push_back(LockVersionsCall(session, request.arrivals));
  SEALANE_ASSIGN_OR_RETURN(const std::vector<PgResult> results, session.Begin(std::move(calls)));

  auto batch = std::make_unique<ArrivalBatch>(session, request);
  if (record) SEALANE_RETURN_IF_ERROR(batch->ReadFiled(results[0]));
  batch->ReadWaits(results[1]);
  if (guard) batch->ReadVersions(results[2]);
  return std::unique_ptr<InboxBatch>(std::move(batch));
}

}  // namespace sealane::postgres
