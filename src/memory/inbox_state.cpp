#include "memory/inbox_state.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace sealane::memory {
namespace {

bool IsFinished(InboxState state) {
  return state == InboxState::kProcessed || state == InboxState::kIgnored || state == InboxState::kSkipped;
}

bool NamesSomething(const InboxAggregate& aggregate) {
  return !std::get<2>(aggregate).empty();
}

}  // namespace

Error PartitionFenced(const Partition& partition) {
  return Error(ErrorKind::kFenced, "partition_fenced",
               fmt::format("somebody else has partition {} of topic {}", partition.number, partition.topic))
      .WithHint("drop what is under way for it; its owner does the work");
}

Error StoreChanged() {
  return Error(ErrorKind::kUnavailable, "store_changed", "the database was restored after this store was opened")
      .WithHint("open a new store: what was committed before may be missing");
}

bool ParkedMessage::may_be_tried(Timestamp now) const {
  if (claimed_until && *claimed_until > now) return false;
  switch (state) {
    case InboxState::kReceived:
    case InboxState::kFailed:
      return !next_attempt_at || *next_attempt_at <= now;
    case InboxState::kGap:
      return next_attempt_at && *next_attempt_at <= now;
    default:
      return false;
  }
}

std::optional<Timestamp> ParkedMessage::due_at() const {
  const bool waits = state == InboxState::kReceived || state == InboxState::kFailed ||
                     (state == InboxState::kGap && next_attempt_at.has_value());
  if (!waits) return std::nullopt;
  return std::max(waits_since(), claimed_until.value_or(Timestamp{}));
}

void ParkedMessage::Note(const ParkNote& note, Timestamp now) {
  SEALANE_ASSERT(note.state != InboxState::kProcessed && note.state != InboxState::kIgnored,
                 "a message that was processed or ignored is not parked");
  state = note.state;
  attempts = note.attempts;
  next_attempt_at.reset();
  claimed_until.reset();
  if (note.retry_after && (state == InboxState::kFailed || state == InboxState::kGap)) {
    next_attempt_at = now + *note.retry_after;
  }
  if (state == InboxState::kGap) {
    // One that is still a gap keeps its time, however often it was woken.
    if (gap_until && (!next_attempt_at || *gap_until < *next_attempt_at)) next_attempt_at = gap_until;
    gap_until = next_attempt_at;
  } else {
    gap_until.reset();
  }
  if (note.error_code.empty()) return;
  if (!first_failed_at) first_failed_at = now;
  last_failed_at = now;
  error_code = note.error_code;
  error_message = note.error_message;
}

void PartitionRecord::ClearSuspicion() {
  suspect_offset.reset();
  suspect_epoch = 0;
  suspect_deaths = 0;
}

InboxItem InboxItem::Of(const Arrival& arrival) {
  InboxItem item;
  item.id = arrival.id;
  item.hash = arrival.hash;
  item.filed_at = arrival.filed_at;
  item.unit = arrival.unit;
  if (arrival.envelope != nullptr) {
    item.aggregate = {arrival.envelope->tenant, arrival.envelope->aggregate.type, arrival.envelope->aggregate.id};
    item.version = arrival.envelope->aggregate.version;
    item.type = arrival.envelope->type;
  }
  item.partition = arrival.message->partition;
  item.offset = arrival.message->offset;
  item.message = arrival.message;
  return item;
}

InboxItem InboxItem::Of(const ParkedMessage& parked) {
  InboxItem item;
  item.id = parked.id;
  item.hash = parked.hash;
  item.unit = parked.unit;
  item.type = parked.type;
  item.aggregate = parked.aggregate;
  item.version = parked.version;
  item.partition = parked.message.partition;
  item.offset = parked.message.offset;
  item.place = parked.place;
  return item;
}

std::int64_t ConsumerRecord::VersionOf(const InboxAggregate& aggregate) const {
  const auto found = versions.find(aggregate);
  return found == versions.end() ? 0 : found->second;
}

ParkedMessage* ConsumerRecord::FirstOf(std::string_view unit, bool by_version) {
  const auto found = places_in.find(unit);
  if (found == places_in.end()) return nullptr;
  const auto waiting_at = [&](std::int64_t place) {
    const auto at = parked.find(place);
    return at != parked.end() && at->second.holds_back() ? &at->second : nullptr;
  };
  ParkedMessage* first = nullptr;
  for (auto place = found->second.all.begin(); place != found->second.all.end() && first == nullptr; ++place) {
    first = waiting_at(*place);
  }
  if (first == nullptr || !by_version || !first->version) return first;
  // It waits for earlier versions of its aggregate, and for nothing else that came later.
  const auto& versions_in = found->second.by_version;
  for (auto at = versions_in.lower_bound({first->aggregate, 0, 0}); at != versions_in.end(); ++at) {
    const auto& [aggregate, version, place] = *at;
    if (aggregate != first->aggregate || version >= *first->version) break;
    if (ParkedMessage* const earlier = waiting_at(place)) return earlier;
  }
  return first;
}

Standing::Known ConsumerRecord::KnownOf(const InboxItem& item) const {
  const auto judge = [](InboxState state) {
    return IsFinished(state) ? Standing::Known::kDone : Standing::Known::kParked;
  };
  const auto receipt = receipts.find(item.id);
  if (receipt != receipts.end() && receipt->second.hash == item.hash) {
    return judge(receipt->second.state);
  }
  const auto [first, last] = places_of.equal_range(item.id);
  const auto same =
      std::find_if(first, last, [&](const auto& entry) { return parked.at(entry.second).hash == item.hash; });
  if (same != last) return judge(parked.at(same->second).state);
  if (receipt != receipts.end() || first != last) return Standing::Known::kOtherBytes;
  return item.filed_at < forgotten_before ? Standing::Known::kTooOld : Standing::Known::kNew;
}

Standing ConsumerRecord::StandingOf(const InboxItem& item, bool guard_versions) {
  Standing standing;
  standing.known = KnownOf(item);
  if (const ParkedMessage* const first = FirstOf(item.unit, guard_versions); first != nullptr) {
    standing.unit_waits = true;
    standing.unit_waits_for_gap =
        first->state == InboxState::kGap && item.version && first->aggregate == item.aggregate;
  }
  if (guard_versions) standing.version_seen = VersionOf(item.aggregate);
  return standing;
}

Status ConsumerRecord::CheckProgress(const ProgressMove& move) const {
  SEALANE_RETURN_IF_ERROR(CheckMove(move));
  const auto found = partitions.find(move.partition);
  // A partition without a position takes the first one that its owner names.
  if (found != partitions.end() && found->second.epoch == move.epoch &&
      found->second.next_offset.value_or(move.from) == move.from) {
    return Ok();
  }
  return PartitionFenced(move.partition);
}

void ConsumerRecord::Write(const InboxItem& item, const Outcome& outcome, Timestamp now) {
  if (outcome.version_seen && NamesSomething(item.aggregate)) versions[item.aggregate] = *outcome.version_seen;
  switch (outcome.kind) {
    case Outcome::Kind::kNothing:
      if (item.place != 0) {
        ParkedMessage& message = parked.at(item.place);
        message.claimed_until.reset();
        message.attempts = std::max(0, message.attempts - 1);
      }
      break;
    case Outcome::Kind::kProcessed:
      Finish(item, InboxState::kProcessed, "", now);
      break;
    case Outcome::Kind::kIgnored:
      Finish(item, InboxState::kIgnored, outcome.code, now);
      break;
    case Outcome::Kind::kParked:
      Park(item, outcome.park, now);
      break;
  }
  const auto partition = partitions.find(item.partition);
  if (partition != partitions.end() && partition->second.suspect_offset == item.offset) {
    partition->second.ClearSuspicion();
  }
}

void ConsumerRecord::Record(const InboxItem& item, InboxState state, const std::string& code,
                            const std::string& message, Timestamp now) {
  if (mode != InboxMode::kRecord) return;
  Receipt& receipt = receipts
                         .try_emplace(item.id, Receipt{item.filed_at,
                                                       state,
                                                       item.hash,
                                                       now,
                                                       {item.partition, item.offset},
                                                       item.type,
                                                       item.aggregate,
                                                       item.version})
                         .first->second;
  if (receipt.hash != item.hash) return;
  receipt.state = state;
  receipt.finished_at = IsFinished(state) ? std::optional(now) : std::nullopt;
  receipt.code = code;
  receipt.message = message;
}

void ConsumerRecord::Finish(const InboxItem& item, InboxState state, const std::string& code, Timestamp now) {
  if (item.place != 0) Unpark(item.place);
  Record(item, state, code, "", now);
  WakeGaps(item.unit, now);
}

void ConsumerRecord::WakeGaps(std::string_view unit, Timestamp now) {
  const auto found = places_in.find(unit);
  if (found == places_in.end()) return;
  for (const std::int64_t place : found->second.all) {
    const auto message = parked.find(place);
    if (message == parked.end() || message->second.state != InboxState::kGap) continue;
    message->second.next_attempt_at = now;
  }
}

bool ConsumerRecord::SetHold(const std::optional<ConsumerHold>& reason, Timestamp now) {
  if (hold.has_value() == reason.has_value() && (!hold || hold->code == reason->code)) return false;
  hold = reason;
  held_at = reason ? std::optional(now) : std::nullopt;
  for (auto& [place, message] : parked) {
    if (message.state != InboxState::kFailed || message.claimed_until) continue;
    if (message.next_attempt_at) message.next_attempt_at = std::min(*message.next_attempt_at, now);
  }
  return true;
}

void ConsumerRecord::Unpark(std::int64_t place) {
  const auto message = parked.find(place);
  if (message == parked.end()) return;
  const auto [first, last] = places_of.equal_range(message->second.id);
  const auto entry = std::find_if(first, last, [&](const auto& one) { return one.second == place; });
  if (entry != last) places_of.erase(entry);
  UnitPlaces& places = places_in[message->second.unit];
  places.all.erase(place);
  if (message->second.version) {
    places.by_version.erase({message->second.aggregate, *message->second.version, place});
  }
  parked.erase(message);
}

bool ConsumerRecord::IsParkedAlready(const InboxItem& item) const {
  const auto [first, last] = places_of.equal_range(item.id);
  return std::any_of(first, last, [&](const auto& entry) {
    const ReceivedMessage& message = parked.at(entry.second).message;
    return message.partition == item.partition && message.offset == item.offset;
  });
}

void ConsumerRecord::Park(const InboxItem& item, const ParkNote& note, Timestamp now) {
  if (item.place == 0 && IsParkedAlready(item)) return;
  const std::int64_t place = item.place != 0 ? item.place : ++last_place;
  ParkedMessage& message = parked[place];
  if (item.place == 0) {
    message.place = place;
    message.message = *item.message;
    message.id = item.id;
    message.hash = item.hash;
    message.unit = note.unit.empty() ? item.unit : note.unit;
    message.type = item.type;
    message.aggregate = item.aggregate;
    message.version = item.version;
    message.parked_at = now;
    places_of.emplace(item.id, place);
    places_in[message.unit].all.insert(place);
    if (message.version) places_in[message.unit].by_version.insert({message.aggregate, *message.version, place});
  }
  message.Note(note, now);
  Record(item, note.state, note.error_code, note.error_message, now);
}

void ConsumerRecord::Forget(Timestamp before, std::size_t limit, PruneReport& report) {
  forgotten_before = std::max(forgotten_before, before);
  for (auto receipt = receipts.begin(); receipt != receipts.end();) {
    const InboxState receipt_state = receipt->second.state;
    const bool is_done = receipt_state == InboxState::kProcessed || receipt_state == InboxState::kIgnored;
    if (!is_done || receipt->second.filed_at >= before) {
      ++receipt;
    } else if (static_cast<std::size_t>(report.receipts) == limit) {
      report.more = true;
      break;
    } else {
      receipt = receipts.erase(receipt);
      ++report.receipts;
    }
  }
}

void ConsumerRecord::ClearSkipped(Timestamp before, std::size_t limit) {
  std::vector<std::int64_t> old;
  for (const auto& [place, message] : parked) {
    if (old.size() < limit && message.state == InboxState::kSkipped && message.parked_at < before) {
      old.push_back(place);
    }
  }
  for (const std::int64_t place : old) Unpark(place);
}

void ConsumerRecord::Move(const ProgressMove& move, std::vector<EventId> finished) {
  PartitionRecord& partition = partitions.at(move.partition);
  partition.next_offset = move.to;
  if (move.witness) partition.witness = move.witness;
  if (!finished.empty()) partition.recent.push_back({move.to, std::move(finished)});
  if (move.forget_through) {
    std::erase_if(partition.recent, [&](const auto& batch) { return batch.through <= *move.forget_through; });
  }
}

bool ConsumerRecord::Save(const PositionSave& save) {
  const auto found = partitions.find(save.partition);
  if (found == partitions.end() || found->second.epoch != save.epoch || found->second.next_offset != save.from) {
    return false;
  }
  if (save.from == save.to) return true;
  found->second.next_offset = save.to;
  if (save.witness) found->second.witness = save.witness;
  return true;
}

}  // namespace sealane::memory
