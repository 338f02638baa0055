#include "sealane/relay.hpp"

#include <mutex>
#include <optional>
#include <thread>

#include "base/file_id.hpp"
#include "connect/broker_url.hpp"
#include "connect/destination_address.hpp"
#include "connect/journal_keeper.hpp"
#include "connect/option_words.hpp"
#include "connect/owner_name.hpp"
#include "connect/store_address.hpp"
#include "connect/store_url.hpp"
#include "relay/route_relay.hpp"

namespace sealane {
namespace {

constexpr std::string_view kBadOption = "bad_option";  // as CheckOptions() says

Result<RouteOptions> RouteOptionsOf(const RelayOptions& options) {
  SEALANE_ASSIGN_OR_RETURN(const RetryPolicy retry, PolicyOf(options.retry, kBadOption));
  RouteOptions route;
  route.route = options.route;
  route.owner = options.owner.empty() ? DefaultOwner() : options.owner;
  route.order = options.order;
  route.profile = options.profile;
  route.wire.source = options.source;
  route.topic_template = options.topic;
  route.filter = {.topics = options.filter.topics,
                  .types = options.filter.types,
                  .tenants = options.filter.tenants,
                  .aggregate_types = options.filter.aggregate_types};
  route.failures.retry = retry;
  route.failures.dead_holds_followers = options.dead_holds_followers;
  route.failures.dead_letter_topic = options.dead_letter_topic;
  route.fair = options.fair;
  route.lease_ttl = options.lease;
  route.settle_interval = options.settle_interval;
  route.poll_max = options.poll_max;
  route.drain_timeout = options.drain_timeout;
  LimitMemory(route, options.memory_max);
  SEALANE_RETURN_IF_ERROR(CheckOptions(route));
  return route;
}

RelayStats StatsOf(const RouteStats& from) {
  RelayStats stats;
  stats.state = ToString(from.state);
  stats.problem = from.problem;
  stats.problem_code = from.problem_code;
  stats.store_reachable = from.store_reachable;
  stats.lanes = from.held.size();
  stats.live_relays = from.live_relays;
  stats.pending = from.pending;
  stats.oldest_pending_seconds = from.oldest_pending_seconds;
  stats.inflight_messages = from.inflight_messages;
  stats.inflight_bytes = from.inflight_bytes;
  stats.parked = from.parked;
  stats.published = from.published;
  stats.published_bytes = from.published_bytes;
  stats.filtered = from.filtered;
  stats.repeated = from.repeated;
  stats.parked_total = from.parked_total;
  stats.dead_total = from.dead_total;
  stats.failures = from.failures;
  stats.topics = from.topics;
  return stats;
}

/// Keeps the journal small while a relay runs; nobody else would, where the relay is embedded.
std::optional<JournalKeeper> KeeperOf(const RelayOptions& options, const BrokerTarget& target) {
  if (target.kind != BrokerKind::kJournal || options.journal_retention.count() <= 0) return std::nullopt;
  return JournalKeeper({.journal = {.path = AbsolutePath(target.location)}, .retention = options.journal_retention},
                       SystemClock::Instance());
}

}  // namespace

class Relay::Impl {
 public:
  Impl(RouteOptions route, const RelayOptions& from, const BrokerTarget& target)
      : options_(std::move(route)),
        store_{.url = FixStoreUrl(from.store),
               .password = from.store_password,
               .schema = from.schema,
               .application_name = "sealane-relay",
               .connect_timeout = from.connect_timeout,
               .statement_timeout = from.statement_timeout},
        destination_{.url = FixBrokerUrl(from.broker),
                     .kafka_properties = from.broker_properties,
                     .http_headers = from.http_headers},
        keeper_(KeeperOf(from, target)) {}

  Result<std::unique_ptr<OutboxLog>> OpenLog(const std::string& owner) const {
    return OpenOutboxLogAt(store_, options_.route, owner);
  }
  Result<std::unique_ptr<Publisher>> OpenPublisher() const {
    return OpenPublisherAt(destination_, SystemClock::Instance());
  }
  /// What no waiting heals is better told now.
  Status Check() const {
    if (auto publisher = OpenPublisher(); !publisher) return InWordsOfTheOptions(std::move(publisher).error());
    SEALANE_ASSIGN_OR_RETURN(const auto log, OpenLog(options_.owner));
    return log->KeepOrder(ToString(options_.order));
  }

  Status Run(const std::stop_token& stop, bool until_drained) {
    SEALANE_ASSIGN_OR_RETURN(const std::shared_ptr<RouteRelay> relay, Begin());
    std::stop_source either;
    const auto end = [&either] { either.request_stop(); };
    const std::stop_callback on_token(stop, end);
    const std::stop_callback on_stop(stopped_.get_token(), end);
    std::jthread keeping;
    if (keeper_) keeping = std::jthread([this](std::stop_token own) { keeper_->Run(std::move(own)); });
    const RelayEnd ended = relay->Run(either.get_token(), until_drained);
    const std::lock_guard lock(mutex_);
    runs_ = false;
    if (ended == RelayEnd::kDrained) return Ok();
    return Error(ErrorKind::kInDoubt, "delivery_unresolved", "some messages got no answer before the end")
        .WithHint("the next relay sends them again: they may arrive twice");
  }

  void Stop() { stopped_.request_stop(); }
  void Wake() const {
    if (const auto relay = current()) relay->Wake();
  }
  RelayStats stats() const {
    const auto relay = current();
    return StatsOf(relay ? relay->stats() : RouteStats());
  }

 private:
  /// A run has a relay of its own, under a name of its own, which stays to be asked for its stats.
  Result<std::shared_ptr<RouteRelay>> Begin() {
    const std::lock_guard lock(mutex_);
    if (runs_) {
      return Error(ErrorKind::kMisuse, "relay_runs", "this relay runs already")
          .WithHint("open another one; they share the work");
    }
    runs_ = true;
    RouteOptions options = options_;
    options.owner = NewOwner(options_.owner, SystemRandom::Instance());
    relay_ = std::make_shared<RouteRelay>(
        options, [this, owner = options.owner] { return OpenLog(owner); }, [this] { return OpenPublisher(); },
        SystemClock::Instance(), SystemRandom::Instance());
    return relay_;
  }
  std::shared_ptr<RouteRelay> current() const {
    const std::lock_guard lock(mutex_);
    return relay_;
  }

  const RouteOptions options_;  // its owner is what names of runs begin with
  const StoreAddress store_;
  const DestinationAddress destination_;
  const std::optional<JournalKeeper> keeper_;
  std::stop_source stopped_;

  mutable std::mutex mutex_;
  bool runs_ = false;                  // guarded by mutex_
  std::shared_ptr<RouteRelay> relay_;  // guarded by mutex_
};

Result<Relay> Relay::Open(RelayOptions options) {
  SEALANE_ASSIGN_OR_RETURN(RouteOptions route, RouteOptionsOf(options));
  auto target = ParseBrokerUrl(options.broker);
  if (!target) return InWordsOfTheOptions(std::move(target).error());
  auto impl = std::make_unique<Impl>(std::move(route), options, *target);
  SEALANE_RETURN_IF_ERROR(impl->Check());
  return Relay(std::move(impl));
}

Relay::Relay(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Relay::~Relay() = default;
Relay::Relay(Relay&&) noexcept = default;
Relay& Relay::operator=(Relay&&) noexcept = default;

Status Relay::Run(std::stop_token stop) {
  return impl_->Run(stop, false);
}
Status Relay::RunUntilDrained(std::stop_token stop) {
  return impl_->Run(stop, true);
}
void Relay::Stop() {
  impl_->Stop();
}
void Relay::Wake() {
  impl_->Wake();
}
RelayStats Relay::stats() const {
  return impl_->stats();
}

}  // namespace sealane
