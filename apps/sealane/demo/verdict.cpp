#include "demo/verdict.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "daemon/daemon.hpp"
#include "demo/books.hpp"

namespace sealane::demo {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kCulpritsShown = 3;

std::string Number(std::size_t count) {
  return cli::Grouped(count);
}

/// Things that should not be, of one kind.
class Culprits {
 public:
  explicit Culprits(std::string what) : what_(std::move(what)) {}
  void Add(std::string name) { names_.push_back(std::move(name)); }
  std::size_t count() const { return names_.size(); }

  void ReportTo(Finding& finding) const {
    if (names_.empty()) return;
    finding.holds = false;
    const auto shown = static_cast<std::ptrdiff_t>(std::min(names_.size(), kCulpritsShown));
    finding.problems.push_back(fmt::format("{} {}: {}{}", Number(names_.size()), what_,
                                           fmt::join(names_.begin(), names_.begin() + shown, ", "),
                                           names_.size() > kCulpritsShown ? ", ..." : ""));
  }

 private:
  const std::string what_;
  std::vector<std::string> names_;
};

/// The shop was answered that some transactions are committed and took others back: the outbox knows the same.
void CheckNotes(const Evidence& evidence, const Books& books, Culprits& missing, Culprits& undead,
                Culprits& unknown) {
  for (const std::string& id : evidence.notes.committed) {
    if (books.Find(id) == nullptr) missing.Add(id);
  }
  for (const std::string& id : evidence.notes.rolled_back) {
    if (books.Find(id) != nullptr || books.Times(id) > 0) undead.Add(books.NameOf(id));
  }
  const std::unordered_set<std::string> noted(evidence.notes.committed.begin(), evidence.notes.committed.end());
  for (const CommittedEvent& event : evidence.committed) {
    if (event.topic == kOrders && !noted.contains(event.id)) unknown.Add(books.NameOf(event.id));
  }
}

/// A transaction of the shop changes one row and appends one event.
void CheckRows(const Evidence& evidence, Culprits& apart) {
  std::map<std::string, std::int64_t> events;
  for (const CommittedEvent& event : evidence.committed) {
    if (event.topic == kOrders) ++events[event.key];
  }
  for (const Balance& balance : evidence.balances) {
    const auto found = events.find(balance.order);
    if (found == events.end() || found->second != balance.changes) apart.Add(balance.order);
    if (found != events.end()) events.erase(found);
  }
  for (const auto& [order, count] : events) apart.Add(order);
}

/// A transaction of `payments` writes one row and appends one event about it. The two have different ids; what they
/// share is the order and its version.
void CheckPayments(const Evidence& evidence, Culprits& eventless, Culprits& rowless) {
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> rows_less_events;
  for (const Effect& payment : evidence.payments) ++rows_less_events[{payment.key, payment.version}];
  for (const CommittedEvent& event : evidence.committed) {
    if (event.topic == kPayments) --rows_less_events[{event.key, event.version}];
  }
  for (const auto& [payment, difference] : rows_less_events) {
    if (difference == 0) continue;
    (difference > 0 ? eventless : rowless).Add(fmt::format("payments {} version {}", payment.first, payment.second));
  }
}

std::size_t CountTopic(const Evidence& evidence, std::string_view topic) {
  return static_cast<std::size_t>(std::count_if(evidence.committed.begin(), evidence.committed.end(),
                                                [&](const CommittedEvent& event) { return event.topic == topic; }));
}

Finding JudgeAtomic(const Evidence& evidence, const Books& books) {
  Finding finding{.name = "atomic",
                  .broken = fmt::format("{} transactions rolled back after the append",
                                        Number(evidence.notes.rolled_back.size())),
                  .counted = {}};
  Culprits missing("were answered as committed and are not in the outbox");
  Culprits undead("were rolled back and are somewhere");
  Culprits unknown("are in the outbox, and nobody noted them as committed");
  Culprits apart("orders and their events do not agree");
  Culprits eventless("written with fewer events than rows");
  Culprits rowless("written with more events than rows");
  CheckNotes(evidence, books, missing, undead, unknown);
  CheckRows(evidence, apart);
  CheckPayments(evidence, eventless, rowless);
  std::int64_t changes = 0;
  for (const Balance& balance : evidence.balances) changes += balance.changes;
  finding.counted =
      fmt::format("{} changes = {} order events, {} payments = {} events, {} of a rollback",
                  Number(static_cast<std::size_t>(changes)), Number(CountTopic(evidence, kOrders)),
                  Number(evidence.payments.size()), Number(CountTopic(evidence, kPayments)), Number(undead.count()));
  for (const Culprits* culprits : {&missing, &undead, &unknown, &apart, &eventless, &rowless}) {
    culprits->ReportTo(finding);
  }
  return finding;
}

std::string WhatStoppedDelivery(const Mischief& mischief) {
  const std::string kills =
      fmt::format("the relay killed with -9, {} time{}", mischief.relay_kills, mischief.relay_kills == 1 ? "" : "s");
  if (!mischief.broker_away) return kills + " (the broker could not be taken away)";
  return fmt::format("broker away for {:.1f} s, {}", static_cast<double>(mischief.broker_away->count()) / 1000,
                     kills);
}

Finding JudgeDelivered(const Evidence& evidence, const Books& books) {
  Finding finding{.name = "delivered", .broken = WhatStoppedDelivery(evidence.mischief), .counted = {}};
  Culprits lost("lost on the way");
  for (const CommittedEvent& event : evidence.committed) {
    if (books.Times(event.id) == 0) lost.Add(books.NameOf(event.id));
  }
  Culprits invented("delivered and never committed");
  Culprits changed("delivered with other bytes");
  std::set<std::string> seen;
  for (const Delivered& delivery : evidence.deliveries) {
    const CommittedEvent* const event = books.Find(delivery.id);
    if (event == nullptr) {
      if (seen.insert(delivery.id).second) invented.Add(delivery.id);
    } else if (event->hash != delivery.hash || event->topic != delivery.topic) {
      changed.Add(books.NameOf(delivery.id));
    }
  }
  finding.counted =
      fmt::format("committed {} = delivered {}, {} lost, {} invented, {} changed", Number(evidence.committed.size()),
                  Number(books.distinct()), Number(lost.count()), Number(invented.count()), Number(changed.count()));
  for (const Culprits* culprits : {&lost, &invented, &changed}) culprits->ReportTo(finding);
  return finding;
}

Finding JudgeRepeated(const Evidence& evidence, const Books& books) {
  Finding finding{.name = "repeated", .broken = "everything delivered twice", .counted = {}};
  Culprits single("delivered once only, so that this run shows nothing about repetitions");
  for (const CommittedEvent& event : evidence.committed) {
    if (books.Times(event.id) == 1) single.Add(books.NameOf(event.id));
  }
  const std::size_t repetitions = evidence.deliveries.size() - books.distinct();
  // A repetition is absorbed when its event had one effect, which JudgeApplied() counts; here it shows in the sums.
  const std::size_t effects = evidence.payments.size() + evidence.approvals.size();
  const std::size_t events =
      evidence.committed.size() - std::min(evidence.set_aside.size(), evidence.committed.size());
  Culprits excess("effects more than events");
  if (effects > events) excess.Add(fmt::format("{} of {}", effects - events, effects));
  Culprits unread("not read by every consumer, so that this run shows nothing about repetitions");
  if (evidence.unread > 0) unread.Add(fmt::format("{} messages", Number(static_cast<std::size_t>(evidence.unread))));
  finding.counted = fmt::format("{} deliveries of {} events, {} repetitions without effect",
                                Number(evidence.deliveries.size()), Number(books.distinct()), Number(repetitions));
  for (const Culprits* culprits : {&single, &excess, &unread}) culprits->ReportTo(finding);
  return finding;
}

/// How often each event had its effect at one consumer.
void CountEffects(const std::vector<Effect>& effects, std::string_view topic, const Evidence& evidence,
                  const Books& books, Culprits& missing, Culprits& doubled) {
  std::unordered_map<std::string, std::int64_t> times;
  for (const Effect& effect : effects) ++times[effect.id];
  std::unordered_set<std::string> aside;
  for (const SetAside& parked : evidence.set_aside) aside.insert(parked.id);
  for (const CommittedEvent& event : evidence.committed) {
    if (event.topic != topic) continue;
    const std::int64_t count = times[event.id];
    if (count == 0 && !aside.contains(event.id)) missing.Add(books.NameOf(event.id));
    if (count > 1 || (count == 1 && aside.contains(event.id))) doubled.Add(books.NameOf(event.id));
  }
}

Finding JudgeApplied(const Evidence& evidence, const Books& books) {
  Finding finding{.name = "applied",
                  .broken = fmt::format("{} handlers failed after they wrote their effect",
                                        Number(static_cast<std::size_t>(evidence.mischief.handler_failures))),
                  .counted = {}};
  Culprits missing("without an effect");
  Culprits doubled("with more than one effect, or set aside with one");
  CountEffects(evidence.payments, kOrders, evidence, books, missing, doubled);
  CountEffects(evidence.approvals, kPayments, evidence, books, missing, doubled);
  Culprits undone("with the effect of an attempt that failed");
  for (const Effect& effect : evidence.payments) {
    if (effect.decision == kFailedAttempt) undone.Add(books.NameOf(effect.id));
  }
  Culprits tame("against the plan, so that this run shows nothing about handlers that fail");
  if (evidence.mischief.handler_failures != evidence.notes.failing_once) {
    tame.Add(fmt::format("{} failed, {} should", evidence.mischief.handler_failures, evidence.notes.failing_once));
  }
  std::unordered_set<std::string> troubled;
  for (const SetAside& parked : evidence.set_aside) {
    if (const CommittedEvent* const event = books.Find(parked.id)) troubled.insert(event->key);
  }
  Culprits unpaid("orders that were not paid as ordered");
  std::int64_t cents = 0;
  for (const Balance& balance : evidence.balances) {
    if (troubled.contains(balance.order)) continue;
    cents += balance.paid;
    if (balance.paid != balance.ordered) unpaid.Add(balance.order);
  }
  finding.counted = fmt::format("{} effects + {} set aside = {} committed, {} twice, {}.{:02} paid as ordered",
                                Number(evidence.payments.size() + evidence.approvals.size()),
                                Number(evidence.set_aside.size()), Number(evidence.committed.size()),
                                Number(doubled.count()), Number(static_cast<std::size_t>(cents / 100)), cents % 100);
  for (const Culprits* culprits : {&missing, &doubled, &undone, &tame, &unpaid}) culprits->ReportTo(finding);
  return finding;
}

/// First deliveries of a key stand in the topic as their events do in the outbox.
std::size_t CheckTopicOrder(const Evidence& evidence, const Books& books, Culprits& inverted) {
  std::map<std::pair<std::string, std::string>, std::vector<const CommittedEvent*>> keys;
  for (const CommittedEvent& event : evidence.committed) keys[{event.topic, event.key}].push_back(&event);
  for (const auto& [key, events] : keys) {
    const Delivered* before = nullptr;
    for (const CommittedEvent* const event : events) {
      const Delivered* const first = books.FirstOf(event->id);
      if (first == nullptr) continue;
      if (before != nullptr && (first->partition != before->partition || first->offset < before->offset)) {
        inverted.Add(books.NameOf(event->id));
      }
      before = first;
    }
  }
  return keys.size();
}

/// Effects of a key go up by versions.
void CheckEffectOrder(const std::vector<Effect>& effects, const Books& books, Culprits& inverted) {
  std::unordered_map<std::string, std::int64_t> seen;
  for (const Effect& effect : effects) {
    std::int64_t& version = seen[effect.key];
    if (effect.version < version) inverted.Add(books.NameOf(effect.id));
    version = std::max(version, effect.version);
  }
}

/// Whether the events that were to come too early did: before an earlier version of theirs.
void CheckEarly(const Evidence& evidence, const Books& books, Culprits& tame) {
  for (const std::string& id : evidence.notes.early) {
    const CommittedEvent* const early = books.Find(id);
    const Delivered* const came = books.FirstOf(id);
    const bool overtook =
        early != nullptr && came != nullptr &&
        std::any_of(evidence.committed.begin(), evidence.committed.end(), [&](const CommittedEvent& other) {
          const Delivered* const later = books.FirstOf(other.id);
          return other.topic == early->topic && other.key == early->key && other.version < early->version &&
                 later != nullptr && later->partition == came->partition && came->offset < later->offset;
        });
    if (!overtook) tame.Add(books.NameOf(id));
  }
}

Finding JudgeOrdered(const Evidence& evidence, const Books& books) {
  Finding finding{.name = "ordered",
                  .broken = fmt::format("{} event out of order", Number(evidence.notes.early.size())),
                  .counted = {}};
  Culprits in_topic("overtook an earlier one of their key on the way");
  Culprits in_effect("took effect after a later version");
  const std::size_t keys = CheckTopicOrder(evidence, books, in_topic);
  CheckEffectOrder(evidence.payments, books, in_effect);
  CheckEffectOrder(evidence.approvals, books, in_effect);
  Culprits tame("meant to come too early and did not, so that this run shows nothing about it");
  CheckEarly(evidence, books, tame);
  finding.counted = fmt::format("{} keys, {} inverted in topics, {} in effects; the early one waited for its turn",
                                Number(keys), Number(in_topic.count()), Number(in_effect.count()));
  for (const Culprits* culprits : {&in_topic, &in_effect, &tame}) culprits->ReportTo(finding);
  return finding;
}

Finding JudgeParked(const Evidence& evidence, const Books& books) {
  Finding finding{
      .name = "parked", .broken = fmt::format("{} poison event", Number(evidence.notes.dead.size())), .counted = {}};
  std::map<std::string, std::string> expected;
  for (const std::string& id : evidence.notes.dead) expected[id] = "DEAD";
  for (const std::string& id : evidence.notes.behind_dead) expected[id] = "RECEIVED";
  Culprits surprising("set aside against expectation");
  std::size_t dead = 0;
  for (const SetAside& parked : evidence.set_aside) {
    const auto found = expected.find(parked.id);
    if (found == expected.end() || found->second != parked.state || parked.consumer != kPayments) {
      surprising.Add(fmt::format("{} ({} at {})", books.NameOf(parked.id), parked.state, parked.consumer));
    } else {
      dead += parked.state == "DEAD" ? 1 : 0;
      expected.erase(found);
    }
  }
  Culprits absent("not set aside, and should be");
  for (const auto& [id, state] : expected) absent.Add(books.NameOf(id));
  finding.counted = fmt::format("{} dead, {} waiting behind it, no other key touched", Number(dead),
                                Number(evidence.set_aside.size() - std::min(dead, evidence.set_aside.size())));
  for (const Culprits* culprits : {&surprising, &absent}) culprits->ReportTo(finding);
  return finding;
}

/// The median: a machine that stands still for a moment delays everybody, and should not decide.
microseconds MiddleOf(std::vector<microseconds> delays) {
  if (delays.empty()) return microseconds{0};
  const auto middle = delays.begin() + static_cast<std::ptrdiff_t>(delays.size() / 2);
  std::nth_element(delays.begin(), middle, delays.end());
  return *middle;
}

std::string Milliseconds(microseconds delay) {
  return fmt::format("{:.0f} ms", static_cast<double>(delay.count()) / 1000);
}

Finding JudgeFair(const Evidence& evidence, const Books& books) {
  Finding finding{.name = "fair",
                  .broken = fmt::format("a tenant orders {} at once, its rule: {}/s",
                                        Number(static_cast<std::size_t>(evidence.notes.noisy_orders)),
                                        Number(static_cast<std::size_t>(evidence.mischief.noisy_rate))),
                  .counted = {}};
  std::vector<microseconds> noisy;
  std::vector<microseconds> quiet;
  std::optional<Timestamp> begin;
  Timestamp end{};
  for (const CommittedEvent& event : evidence.committed) {
    const Delivered* const first = books.FirstOf(event.id);
    if (event.tenant != Shop::kNoisyTenant || first == nullptr) continue;
    begin = std::min(begin.value_or(event.appended_at), event.appended_at);
    end = std::max(end, first->published_at);
    noisy.push_back(first->published_at - event.appended_at);
  }
  for (const CommittedEvent& event : evidence.committed) {
    const Delivered* const first = books.FirstOf(event.id);
    if (event.tenant == Shop::kNoisyTenant || first == nullptr || !begin) continue;
    if (event.appended_at >= *begin && event.appended_at <= end)
      quiet.push_back(first->published_at - event.appended_at);
  }
  const microseconds quiet_median = MiddleOf(quiet);
  const microseconds noisy_median = MiddleOf(noisy);
  finding.counted = fmt::format("half of {} events of others waited {} at most, half of the noisy ones {}",
                                Number(quiet.size()), Milliseconds(quiet_median), Milliseconds(noisy_median));
  finding.holds = !quiet.empty() && quiet_median < noisy_median;
  if (!finding.holds) finding.problems.emplace_back("others waited as long as the noisy one, or there were none");
  return finding;
}

}  // namespace

bool Verdict::holds() const {
  return std::all_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.holds; });
}

Verdict Judge(const Evidence& evidence) {
  const Books books(evidence);
  return {{JudgeAtomic(evidence, books), JudgeDelivered(evidence, books), JudgeRepeated(evidence, books),
           JudgeApplied(evidence, books), JudgeOrdered(evidence, books), JudgeParked(evidence, books),
           JudgeFair(evidence, books)}};
}

}  // namespace sealane::demo
