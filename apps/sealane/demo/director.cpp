#include "demo/director.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.hpp"
#include "broker_factory.hpp"
#include "journal/journal_reader.hpp"
#include "kafka/kafka_probe.hpp"
#include "store_factory.hpp"

namespace sealane::demo {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookEvery{200};
constexpr milliseconds kLookForFirst{5};
constexpr milliseconds kStep{20};
constexpr milliseconds kWarmUp{30'000};
constexpr milliseconds kRelayPatience{5'000};
constexpr milliseconds kProbe{5'000};
// Nothing has moved for so long: it will not any more. A Kafka that comes back takes its time.
constexpr milliseconds kStandstill{30'000};
// With a mistake built in, that is what is waited for.
constexpr milliseconds kStandstillPlanted{4'000};

/// When the kernel started this process, on the clock of SinceBoot(); in hundredths of seconds.
BootTime ProcessStart() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // The name in parentheses may contain anything; the twentieth word after it is the time.
  std::istringstream words(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::string word;
  for (int i = 0; i < 20; ++i) words >> word;
  const auto ticks = std::strtoll(word.c_str(), nullptr, 10);
  return std::chrono::nanoseconds{ticks * (1'000'000'000LL / ::sysconf(_SC_CLK_TCK))};
}

}  // namespace

Director::Director(DemoOptions options, Board& board, Clock& clock, Random& random)
    : options_(std::move(options)), plan_(PlanFor(options_.pace)), board_(board), clock_(clock), random_(random) {}

Director::~Director() {
  outage_.reset();  // a relay ends well only where it can reach its broker
  if (relay_) relay_->Stop(kRelayPatience);
}

Status Director::SetUp(const std::stop_token& stop) {
  PlaceOptions place = options_.place;
  place.lease = plan_.lease;
  SEALANE_ASSIGN_OR_RETURN(place_, Place::Make(place, clock_, random_, stop));
  SEALANE_ASSIGN_OR_RETURN(database_, Database::Open(place_->store()));
  outage_ = Outage::For(*place_, options_.outage);
  SEALANE_RETURN_IF_ERROR(SetTenantRule());
  const char* const command = options_.plant == Plant::kMarkBeforePublish ? "demo-hasty-relay" : "relay";
  relay_ = std::make_unique<RelayProcess>(std::vector<std::string>{command, "--config", place_->config_file()},
                                          place_->variables(), place_->relay_log());
  SEALANE_RETURN_IF_ERROR(StartRelay());
  if (options_.plant == Plant::kEffectOutsideTransaction) {
    SEALANE_ASSIGN_OR_RETURN(auto side, Database::Open(place_->store()));
    side_ = std::make_unique<SideWriter>(std::move(side), failure_);
  }
  SEALANE_ASSIGN_OR_RETURN(offices_, Offices::Open(*place_, side_.get(), failure_));
  SEALANE_ASSIGN_OR_RETURN(auto till, Database::Open(place_->store()));
  shop_ = std::make_unique<Shop>(*place_, plan_, options_.pace.seed, std::move(till), board_, clock_);
  return Ok();
}

Status Director::SetTenantRule() const {
  // Looking at a route makes it.
  SEALANE_RETURN_IF_ERROR(cli::OpenStoreLog(place_->store(), "again", "demo"));
  SEALANE_ASSIGN_OR_RETURN(const auto letters, cli::OpenDeadLetters(place_->store()));
  for (const char* const route : {"main", "again"}) {
    SEALANE_RETURN_IF_ERROR(
        letters->SetTenant(route, {.tenant = std::string(Shop::kNoisyTenant), .rate_max = plan_.noisy_rate},
                           {.actor = "demo", .reason = "this tenant is known to be noisy"}));
  }
  return Ok();
}

Status Director::StartRelay() {
  relay_wanted_ = true;
  return relay_->Start();
}

Result<Outcome> Director::Play(std::stop_token stop) {
  SEALANE_RETURN_IF_ERROR(WarmUp(stop));
  board_.SetPhase("the shop is open");
  if (!outage_) {
    board_.Say("the broker stays: taking a Kafka away needs --broker-away and --broker-back");
  }
  std::atomic<bool> closed = false;
  std::jthread shopping([&](std::stop_token close) {
    if (const Status end = shop_->Run(close); !end) failure_.Note(end.error());
    closed = true;
  });
  const BootTime begin = clock_.SinceBoot();
  BootTime looked{0};
  while (!closed || next_step_ < 4) {
    const BootTime now = clock_.SinceBoot();
    if (now - looked >= kLookEvery) {
      looked = now;
      SEALANE_RETURN_IF_ERROR(Look());
    }
    SEALANE_RETURN_IF_ERROR(FollowPlan(std::chrono::duration_cast<milliseconds>(now - begin)));
    if (!clock_.SleepFor(kStep, stop)) return Interrupted();
  }
  shopping.join();
  SEALANE_RETURN_IF_ERROR(WaitUntilSettled(stop));
  board_.SetPhase("counting");
  SEALANE_ASSIGN_OR_RETURN(const Evidence evidence, Gather());
  board_.SetPhase("done");
  if (options_.place.keep) place_->Keep();
  return Outcome{Judge(evidence), counts_, first_applied_.value_or(milliseconds{0})};
}

Status Director::OpenOffices() {
  SEALANE_ASSIGN_OR_RETURN(watch_, TopicWatch::Start(*place_, clock_, random_, failure_));
  offices_->Start();
  return Ok();
}

Status Director::WarmUp(const std::stop_token& stop) {
  board_.SetPhase("the first order is on its way");
  board_.Say("the shop opens; a second route ships everything once more");
  SEALANE_RETURN_IF_ERROR(shop_->PlaceFirst());
  const BootTime deadline = clock_.SinceBoot() + kWarmUp;
  while (!first_applied_ && clock_.SinceBoot() < deadline) {
    // A topic of a journal begins with its first message, and members of a group look for new ones twice a second
    // only: those who come after it are served at once.
    if (!watch_ && (place_->has_kafka() || JournalHasTopics())) SEALANE_RETURN_IF_ERROR(OpenOffices());
    SEALANE_RETURN_IF_ERROR(watch_ ? Look() : CheckParts());
    if (!clock_.SleepFor(kLookForFirst, stop)) return Interrupted();
  }
  if (watch_) return Ok();
  return Error(ErrorKind::kUnavailable, "relay_ended",
               "the relay delivers nothing; it said: " + EscapeForTerminal(relay_->LastWords()));
}

bool Director::JournalHasTopics() const {
  const auto reader = JournalReader::Open({.path = place_->journal_folder() + "/journal.db"}, clock_);
  if (!reader) return false;
  const auto topics = (*reader)->Topics();
  return topics && !topics->empty();
}

Status Director::FollowPlan(milliseconds now) {
  if (next_step_ == 0 && now >= plan_.broker_away) {
    ++next_step_;
    if (!outage_) return Ok();
    away_since_ = clock_.SinceBoot();
    SEALANE_RETURN_IF_ERROR(outage_->Begin());
    board_.Break("the broker is away", "the broker goes away");
  } else if (next_step_ == 1 && now >= plan_.broker_back) {
    ++next_step_;
    return EndOutage();
  } else if (next_step_ == 2 && now >= plan_.relay_killed && (now >= 10 * plan_.end || MarkIsVisible())) {
    ++next_step_;
    const pid_t victim = relay_->pid();
    relay_wanted_ = false;
    relay_->Kill();
    ++mischief_.relay_kills;
    board_.Break("the relay is dead", fmt::format("kill -9 {}: the relay is dead", victim));
  } else if (next_step_ == 3 && now >= plan_.relay_restarted) {
    ++next_step_;
    SEALANE_RETURN_IF_ERROR(StartRelay());
    board_.Heal("the relay is dead", fmt::format("a new relay, process {}; the dead one's lease ends within {:.1f} s",
                                                 relay_->pid(), static_cast<double>(plan_.lease.count()) / 1000));
  }
  return Ok();
}

bool Director::MarkIsVisible() {
  if (options_.plant != Plant::kMarkBeforePublish) return true;
  const auto marked = database_->Number(
      fmt::format("SELECT min(n) FROM (SELECT count(*) AS n FROM {} WHERE status = 'PUBLISHED' GROUP BY route) AS r",
                  place_->dialect().Sealane("outbox_status")));
  return marked && *marked > counts_.delivered;
}

Status Director::EndOutage() {
  if (!outage_) return Ok();
  SEALANE_RETURN_IF_ERROR(outage_->End());
  mischief_.broker_away = std::chrono::duration_cast<milliseconds>(clock_.SinceBoot() - *away_since_);
  board_.Heal("the broker is away", fmt::format("the broker is back after {:.1f} s",
                                                static_cast<double>(mischief_.broker_away->count()) / 1000));
  return Ok();
}

Status Director::CheckParts() {
  if (const auto error = failure_.error()) return *error;
  if (relay_wanted_ && !relay_->Runs()) {
    return Error(ErrorKind::kUnavailable, "relay_ended",
                 "the relay ended by itself: " + EscapeForTerminal(relay_->LastWords()));
  }
  return Ok();
}

Status Director::Look() {
  SEALANE_RETURN_IF_ERROR(CheckParts());
  SEALANE_ASSIGN_OR_RETURN(counts_, CountStore(*database_, place_->dialect()));
  watch_->Count(counts_);
  board_.Show(counts_);
  if (!first_applied_ && counts_.applied > 0) {
    first_applied_ = std::chrono::duration_cast<milliseconds>(clock_.SinceBoot() - ProcessStart());
    board_.Say(fmt::format("the first event is applied, {:.2f} s after this program was started",
                           static_cast<double>(first_applied_->count()) / 1000));
  }
  return Ok();
}

bool Director::Settled() const {
  const auto expected = static_cast<std::int64_t>(shop_->notes().dead.size() + shop_->notes().behind_dead.size());
  return counts_.pending() == 0 && counts_.parked == expected && counts_.delivered == counts_.committed &&
         watch_->twice() == counts_.committed;
}

Result<bool> Director::RoutesAreDone() {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t left,
                           database_->Number(fmt::format("SELECT count(*) FROM {} WHERE status <> 'PUBLISHED'",
                                                         place_->dialect().Sealane("outbox_status"))));
  return left == 0;
}

Result<std::int64_t> Director::Unread() const {
  std::int64_t unread = 0;
  const std::pair<std::string_view, std::string_view> readers[] = {{kPayments, kOrders}, {kApprovals, kPayments}};
  if (!place_->has_kafka()) {
    SEALANE_ASSIGN_OR_RETURN(const auto reader,
                             JournalReader::Open({.path = place_->journal_folder() + "/journal.db"}, clock_));
    for (const auto& [consumer, topic] : readers) {
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t here,
                               reader->Unread(place_->Named(consumer), place_->Named(topic)));
      unread += here;
    }
    return unread;
  }
  const cli::Settings& broker = *place_->config().FindBroker(cli::kDefaultName);
  for (const auto& [consumer, topic] : readers) {
    SEALANE_ASSIGN_OR_RETURN(const BrokerReport report, ProbeKafka(cli::KafkaOptionsOf(broker), kProbe, clock_,
                                                                   {.groups = {place_->Named(consumer)}}));
    if (report.problem) return *report.problem;
    const GroupLag lag = report.groups.empty() ? GroupLag{} : report.groups.front();
    // A partition of which nothing was acknowledged is not in the report.
    const std::size_t partitions = watch_->Partitions(place_->Named(topic));
    unread += lag.messages + static_cast<std::int64_t>(partitions - std::min(partitions, lag.partitions));
  }
  return unread;
}

Status Director::WaitUntilSettled(std::stop_token stop) {
  board_.SetPhase("the shop is closed, the rest is on its way");
  board_.Say("the shop is closed");
  const milliseconds patience = options_.plant == Plant::kNone ? kStandstill : kStandstillPlanted;
  Counts before = counts_;
  BootTime moved = clock_.SinceBoot();
  while (true) {
    SEALANE_RETURN_IF_ERROR(Look());
    const std::optional<std::int64_t> unread = unread_;
    unread_.reset();
    if (Settled()) {
      // Only when everything else is done: both ask anew each time.
      SEALANE_ASSIGN_OR_RETURN(const bool shipped, RoutesAreDone());
      if (const auto asked = Unread(); shipped && asked) unread_ = *asked;
    }
    if (unread_ == 0) break;
    const BootTime now = clock_.SinceBoot();
    if (!(counts_ == before) || unread_ != unread) moved = now;
    before = counts_;
    if (now - moved > patience) {
      board_.Say(fmt::format("nothing moves any more for {} s", patience.count() / 1000), Tone::kBroken);
      return Ok();
    }
    if (!clock_.SleepFor(kLookEvery / 2, stop)) return Interrupted();
  }
  board_.Say("everything has arrived", Tone::kHealed);
  return Ok();
}

Result<Evidence> Director::Gather() {
  Evidence evidence;
  evidence.notes = shop_->notes();
  evidence.mischief = mischief_;
  evidence.mischief.handler_failures = offices_->failures();
  evidence.mischief.noisy_rate = plan_.noisy_rate;
  evidence.deliveries = watch_->All();
  if (unread_ != 0) {
    SEALANE_ASSIGN_OR_RETURN(evidence.unread, Unread());
  }
  SEALANE_RETURN_IF_ERROR(ReadStore(*database_, *place_, evidence));
  return evidence;
}

}  // namespace sealane::demo
