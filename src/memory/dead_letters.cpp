#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "memory/database.hpp"
#include "ops/operator_action.hpp"

namespace sealane::memory {
namespace {

/// A parked event that an operator asked for.
struct Found {
  const std::string* route;
  ParkedRow* row;
};

bool Fits(const std::optional<std::string>& wanted, const std::string& value) {
  return !wanted || *wanted == value;
}

bool Fits(const DeadLetterFilter& filter, const std::string& route, const ParkedRow& row) {
  const bool state_fits = filter.state ? row.state == *filter.state
                                       : row.state == ParkedState::kFailed || row.state == ParkedState::kDead;
  return state_fits && Fits(filter.route, route) && Fits(filter.tenant, row.event.tenant) &&
         Fits(filter.topic, row.event.topic) && Fits(filter.key, row.event.key) &&
         Fits(filter.error_code, row.error_code);
}

/// Longest waiting first.
bool WaitsLonger(const Found& a, const Found& b) {
  const auto rank = [](const Found& found) {
    const ParkedRow& row = *found.row;
    return std::tuple(!row.first_failed_at.has_value(), row.first_failed_at, row.event.seq, *found.route);
  };
  return rank(a) < rank(b);
}

template <class Wanted>
std::vector<Found> Select(LogState& state, std::size_t limit, const Wanted& wanted) {
  std::vector<Found> found;
  for (auto& [name, route] : state.routes) {
    for (auto& [seq, row] : route.parked) {
      if (wanted(name, row)) found.push_back({&name, &row});
    }
  }
  std::ranges::sort(found, WaitsLonger);
  if (found.size() > limit) found.resize(limit);
  return found;
}

std::int64_t FollowersOf(const RouteState& route, const ParkedRow& row) {
  if (!row.holds_back()) return 0;
  return std::ranges::count_if(route.parked, [&](const auto& other) {
    return other.first > row.event.seq && other.second.lane() == row.lane() &&
           other.second.event.unit == row.event.unit && other.second.holds_back();
  });
}

DeadLetter Show(const LogState& state, const Found& found) {
  const ParkedRow& row = *found.row;
  DeadLetter letter;
  letter.route = *found.route;
  letter.lane = row.lane();
  letter.seq = row.event.seq;
  letter.id = row.event.id;
  letter.unit = row.event.unit;
  letter.tenant = row.event.tenant;
  letter.topic = row.event.topic;
  letter.key = row.event.key;
  if (const auto message = state.log.find(row.event.seq); message != state.log.end()) {
    letter.type = message->second.envelope.type;
  }
  letter.state = row.state;
  letter.skipped = row.skipped;
  letter.attempts = row.attempts;
  letter.next_attempt_at = row.next_attempt_at;
  letter.first_failed_at = row.first_failed_at;
  letter.last_failed_at = row.last_failed_at;
  letter.error_code = row.error_code;
  letter.error_message = row.error_message;
  letter.followers = FollowersOf(state.routes.at(*found.route), row);
  return letter;
}

bool IsFailed(const ParkedRow& row) {
  return row.state == ParkedState::kFailed || row.state == ParkedState::kDead;
}

class MemoryDeadLetters final : public DeadLetters {
 public:
  explicit MemoryDeadLetters(std::shared_ptr<Database> database) : database_(std::move(database)) {}

  Result<std::vector<DeadLetter>> List(const DeadLetterFilter& filter) override {
    return database_->WithLog([&](LogState& state) -> Result<std::vector<DeadLetter>> {
      return ShowAll(
          state, Select(state, std::clamp<std::size_t>(filter.limit, 1, kDeadLettersMax),
                        [&](const std::string& route, const ParkedRow& row) { return Fits(filter, route, row); }));
    });
  }
  Result<std::vector<DeadLetter>> Find(const EventId& id) override {
    return database_->WithLog([&](LogState& state) -> Result<std::vector<DeadLetter>> {
      return ShowAll(state, Select(state, kDeadLettersMax,
                                   [&](const std::string&, const ParkedRow& row) { return row.event.id == id; }));
    });
  }

  Result<std::int64_t> Retry(const DeadLetterFilter& which, const OperatorAction& why) override {
    return Apply(
        "dead.retry", why, std::clamp<std::size_t>(which.limit, 1, kDeadLettersMax),
        [&](const std::string& route, const ParkedRow& row) { return IsFailed(row) && Fits(which, route, row); },
        MakeDue);
  }
  Result<std::int64_t> Retry(const EventId& id, std::optional<std::string> route,
                             const OperatorAction& why) override {
    return ApplyTo("dead.retry", why, id, route, IsFailed, MakeDue);
  }
  Result<std::int64_t> Discard(const EventId& id, std::optional<std::string> route,
                               const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    ParkDelayed(id, route);
    return ApplyTo(
        "dead.discard", why, id, route, [](const ParkedRow& row) { return row.state != ParkedState::kDiscarded; },
        [](ParkedRow& row, Timestamp) {
          row.state = ParkedState::kDiscarded;
          row.next_attempt_at.reset();
        });
  }
  Result<std::int64_t> Skip(const EventId& id, std::optional<std::string> route, const OperatorAction& why) override {
    return ApplyTo(
        "dead.skip", why, id, route,
        [](const ParkedRow& row) { return row.state == ParkedState::kDead && !row.skipped; },
        [](ParkedRow& row, Timestamp) { row.skipped = true; });
  }

  Result<std::int64_t> CountReroute(const RerouteRequest& request) override {
    SEALANE_RETURN_IF_ERROR(CheckReroute(request));
    return database_->WithLog([&](LogState& state) -> Result<std::int64_t> {
      RerouteRequest all = request;
      all.limit = std::numeric_limits<std::size_t>::max();
      return static_cast<std::int64_t>(ToReroute(state, all).size());
    });
  }
  Result<std::int64_t> Reroute(const RerouteRequest& request, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    SEALANE_RETURN_IF_ERROR(CheckReroute(request));
    return database_->WithLog([&](LogState& state) -> Result<std::int64_t> {
      const std::vector<Found> found = ToReroute(state, request);
      std::map<std::string, std::int64_t> counts;
      for (const Found& one : found) {
        ParkedRow& row = *one.row;
        NoteChange(state, one);
        if (row.event.unit == request.topic + "/" + row.event.key) row.event.unit = request.to + "/" + row.event.key;
        row.destination = request.to;
        if (request.waiting) row.event.waits_for = request.to;
        if (IsFailed(row)) MakeDue(row, database_->clock().Now());
        NoteChange(state, one);
        row.error_code.clear();
        row.error_message.clear();
        state.routes.at(*one.route).rerouted[row.event.seq] = {request.to, database_->clock().Now()};
        ++counts[*one.route];
      }
      for (const auto& [route, count] : counts) {
        Record(state, AuditAction(request),
               AuditTarget(fmt::format("{} events of topic {} to {}", count, request.topic, request.to), route), why);
      }
      return static_cast<std::int64_t>(found.size());
    });
  }

  Result<std::vector<TenantRule>> Tenants(const std::string& route) override {
    return database_->WithLog([&](LogState& state) -> Result<std::vector<TenantRule>> {
      const auto found = state.routes.find(route);
      if (found == state.routes.end()) return UnknownRoute(route);
      std::vector<TenantRule> rules;
      for (const auto& [tenant, rule] : found->second.tenants) rules.push_back(rule);
      return rules;
    });
  }
  Status SetTenant(const std::string& route, const TenantRule& rule, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    SEALANE_RETURN_IF_ERROR(CheckRule(rule));
    return database_->WithLog([&](LogState& state) -> Status {
      const auto found = state.routes.find(route);
      if (found == state.routes.end()) return UnknownRoute(route);
      const TenantRule before = std::exchange(found->second.tenants[rule.tenant], rule);
      Record(state, AuditAction(before, rule), AuditTarget(rule.tenant, route), why);
      return Ok();
    });
  }
  Status SetPaused(const std::string& route, bool paused, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    return database_->WithLog([&](LogState& state) -> Status {
      const auto found = state.routes.find(route);
      if (found == state.routes.end()) return UnknownRoute(route);
      found->second.paused = paused;
      Record(state, paused ? "route.pause" : "route.resume", route, why);
      return Ok();
    });
  }

  Result<std::vector<AuditRecord>> Audit(std::size_t limit) override {
    return database_->WithLog([&](LogState& state) -> Result<std::vector<AuditRecord>> {
      const std::size_t count = std::min({limit, state.audit.size(), kDeadLettersMax});
      return std::vector<AuditRecord>(state.audit.rbegin(),
                                      state.audit.rbegin() + static_cast<std::ptrdiff_t>(count));
    });
  }

 private:
  static std::vector<DeadLetter> ShowAll(const LogState& state, const std::vector<Found>& found) {
    std::vector<DeadLetter> letters;
    for (const Found& one : found) letters.push_back(Show(state, one));
    return letters;
  }
  static std::vector<Found> ToReroute(LogState& state, const RerouteRequest& request) {
    std::vector<Found> found;
    std::set<std::pair<std::string, std::string>> units;  // with a dead event
    for (auto& [name, route] : state.routes) {
      if (!Fits(request.route, name)) continue;
      for (auto& [seq, row] : route.parked) {
        const bool dead = row.state == ParkedState::kDead && row.event.topic == request.topic;
        if (!request.waiting && dead && units.size() < request.limit) units.emplace(name, row.event.unit);
        if (request.waiting && found.size() < request.limit && row.waits_for_topic() &&
            row.event.waits_for == request.topic) {
          found.push_back({&name, &row});
        }
      }
      for (auto& [seq, row] : route.parked) {
        const bool follows = row.state != ParkedState::kDiscarded && row.event.topic == request.topic &&
                             !row.waits_for_topic() && units.contains({name, row.event.unit});
        if (follows) found.push_back({&name, &row});
      }
    }
    return found;
  }
  /// An event that waits for its time is given up like one that is parked.
  void ParkDelayed(const EventId& id, const std::optional<std::string>& wanted) {
    database_->WithLog([&](LogState& state) {
      const auto seq = state.seq_of.find(id);
      if (seq == state.seq_of.end()) return;
      const StoredMessage& message = state.log.at(seq->second);
      for (auto& [name, route] : state.routes) {
        const auto due_at = message.envelope.available_at;
        if ((wanted && name != *wanted) || !due_at || route.delayed.erase({*due_at, message.seq}) == 0) continue;
        ParkedRow& row = route.parked[message.seq];
        row.event = {.lease = {message.lane, 0},
                     .seq = message.seq,
                     .place = 0,
                     .id = id,
                     .unit = message.envelope.topic + "/" + message.envelope.key,
                     .tenant = message.envelope.tenant,
                     .topic = message.envelope.topic,
                     .key = message.envelope.key};
      }
    });
  }
  static void NoteChange(LogState& state, const Found& one) {
    state.routes.at(*one.route).changes.emplace_back(one.row->lane(), one.row->event.unit);
  }
  static void MakeDue(ParkedRow& row, Timestamp now) {
    row.state = ParkedState::kFailed;
    row.attempts = 0;
    row.next_attempt_at = now;
    row.skipped = false;
  }
  void Record(LogState& state, std::string_view action, std::string target, const OperatorAction& why) const {
    const auto id = static_cast<std::int64_t>(state.audit.size()) + 1;
    state.audit.push_back(RecordOf(id, database_->clock().Now(), action, std::move(target), why));
  }

  template <class Wanted, class Change>
  Result<std::int64_t> Apply(std::string_view action, const OperatorAction& why, std::size_t limit,
                             const Wanted& wanted, const Change& change) {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    return database_->WithLog([&](LogState& state) -> Result<std::int64_t> {
      const std::vector<Found> found = Select(state, limit, wanted);
      for (const Found& one : found) {
        change(*one.row, database_->clock().Now());
        NoteChange(state, one);
        Record(state, action, AuditTarget(one.row->event.id.ToString(), *one.route), why);
      }
      return static_cast<std::int64_t>(found.size());
    });
  }
  template <class AppliesTo, class Change>
  Result<std::int64_t> ApplyTo(std::string_view action, const OperatorAction& why, const EventId& id,
                               const std::optional<std::string>& route, const AppliesTo& applies_to,
                               const Change& change) {
    return Apply(
        action, why, kDeadLettersMax,
        [&](const std::string& name, const ParkedRow& row) {
          return row.event.id == id && Fits(route, name) && applies_to(row);
        },
        change);
  }

  std::shared_ptr<Database> database_;
};

}  // namespace

Result<std::unique_ptr<DeadLetters>> OpenDeadLetters(std::shared_ptr<Database> database) {
  return std::unique_ptr<DeadLetters>(std::make_unique<MemoryDeadLetters>(std::move(database)));
}

}  // namespace sealane::memory
