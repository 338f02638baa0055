#include "sealane/inbox.hpp"

#include <algorithm>
#include <mutex>
#include <set>

#include "connect/broker_url.hpp"
#include "connect/option_words.hpp"
#include "connect/source_address.hpp"
#include "connect/store_address.hpp"
#include "connect/store_url.hpp"
#include "inbox/consumer.hpp"

namespace sealane {
namespace {

Error Wrong(std::string field, std::string message, std::string hint) {
  return Error(ErrorKind::kMisconfigured, "invalid_consumer", std::move(message))
      .WithField(std::move(field))
      .WithHint(std::move(hint));
}

Result<ConsumerOptions> ConsumerOptionsOf(const InboxOptions& options) {
  SEALANE_ASSIGN_OR_RETURN(const RetryPolicy retry, PolicyOf(options.retry, "invalid_consumer"));
  if (options.topics.empty()) return Wrong("topics", "there is no topic to read", "name at least one");
  if (!options.tenants.empty() && options.tenant_allowed) {
    return Wrong("tenants", "tenants are allowed both by a list and by a callback", "give one of the two");
  }
  ConsumerOptions consumer;
  consumer.consumer = options.consumer;
  consumer.mode = options.mode;
  consumer.workers = options.workers;
  consumer.batch_max = options.batch_max;
  consumer.guard_versions = options.guard_versions;
  consumer.gap_timeout = options.gap_timeout;
  consumer.gap_policy = options.gap_policy;
  consumer.tenant_allowed = options.tenant_allowed;
  if (!options.tenants.empty()) {
    consumer.tenant_allowed = [allowed = std::set<std::string, std::less<>>(
                                   options.tenants.begin(), options.tenants.end())](std::string_view tenant) {
      return allowed.contains(tenant);
    };
  }
  consumer.retry = retry;
  consumer.crash_budget = options.crash_budget;
  consumer.dead_letter_topic = options.dead_letter_topic;
  consumer.owner_team = options.owner_team;
  consumer.criticality = options.criticality;
  consumer.recent_max = options.recent_max;
  consumer.breaker = options.breaker;
  consumer.breaker_share = options.breaker_share;
  consumer.breaker_keys = options.breaker_keys;
  consumer.breaker_count = options.breaker_count;
  consumer.breaker_window = options.breaker_window;
  consumer.parked_max = options.parked_max;
  consumer.retention = options.retention;
  consumer.memory_max = options.memory_max;
  SEALANE_RETURN_IF_ERROR(CheckOptions(consumer));
  return consumer;
}

InboxStats StatsOf(const ConsumerStats& from) {
  InboxStats stats;
  stats.state = ToString(from.state);
  stats.problem = from.problem;
  stats.problem_code = from.problem_code;
  stats.hold_code = from.hold_code;
  stats.store_reachable = from.store_reachable;
  stats.broker_reachable = from.broker_reachable;
  stats.partitions = from.partitions.size();
  for (const PartitionLag& partition : from.partitions) stats.lag += partition.lag;
  stats.stopped_partitions = from.stopped.size();
  for (const StoppedPartition& partition : from.stopped) stats.lag += partition.messages;
  stats.inflight_messages = from.inflight_messages;
  stats.inflight_bytes = from.inflight_bytes;
  stats.parked = from.parked;
  stats.dead = from.dead;
  stats.gaps = from.gaps;
  stats.received = from.received;
  stats.effects = from.effects;
  stats.ignored = from.ignored;
  stats.duplicates = from.duplicates;
  stats.stale = from.stale;
  stats.too_old = from.too_old;
  stats.hash_mismatches = from.hash_mismatches;
  stats.parked_total = from.parked_total;
  stats.dead_total = from.dead_total;
  stats.retries = from.retries;
  stats.transactions = from.batches;
  stats.rollbacks = from.rollbacks;
  stats.failures = from.failures;
  return stats;
}

}  // namespace

class Inbox::Impl {
 public:
  Impl(ConsumerOptions options, const InboxOptions& from, Handlers handlers)
      : options_(std::move(options)),
        store_{.url = FixStoreUrl(from.store),
               .password = from.store_password,
               .schema = from.schema,
               .connect_timeout = from.connect_timeout,
               .statement_timeout = from.statement_timeout},
        source_{.url = FixBrokerUrl(from.broker),
                .group = from.consumer,
                .member = from.member,
                .topics = from.topics,
                .session = from.session,
                .kafka_properties = from.broker_properties},
        handlers_(std::move(handlers)),
        reject_unknown_types_(from.reject_unknown_types) {}

  Result<std::unique_ptr<InboxStore>> OpenStore() const {
    return OpenInboxAt(store_, options_.consumer, options_.mode);
  }

  Status Run(const std::stop_token& stop, bool until_caught_up) {
    SEALANE_ASSIGN_OR_RETURN(const std::shared_ptr<Consumer> consumer, Begin());
    std::stop_source either;
    const auto end = [&either] { either.request_stop(); };
    const std::stop_callback on_token(stop, end);
    const std::stop_callback on_stop(stopped_.get_token(), end);
    Status status = consumer->Run(either.get_token(), until_caught_up);
    const std::lock_guard lock(mutex_);
    runs_ = false;
    return status;
  }

  void Stop() { stopped_.request_stop(); }

  InboxStats stats() const {
    std::shared_ptr<Consumer> consumer;
    {
      const std::lock_guard lock(mutex_);
      consumer = consumer_;
    }
    return consumer ? StatsOf(consumer->stats()) : StatsOf({});
  }

 private:
  /// A run has a consumer of its own, which stays to be asked for its stats.
  Result<std::shared_ptr<Consumer>> Begin() {
    const std::lock_guard lock(mutex_);
    if (runs_) {
      return Error(ErrorKind::kMisuse, "inbox_runs", "this inbox runs already")
          .WithHint("open another one, with a member name of its own");
    }
    runs_ = true;
    consumer_ = std::make_shared<Consumer>(
        options_, MakeHandling(handlers_, reject_unknown_types_), MakeEnvelopeReader(),
        [this] { return OpenStore(); },
        [this] { return OpenSubscriptionAt(source_, SystemClock::Instance(), SystemRandom::Instance()); },
        SystemClock::Instance(), SystemRandom::Instance());
    return consumer_;
  }

  const ConsumerOptions options_;
  const StoreAddress store_;
  const SourceAddress source_;
  const Handlers handlers_;
  const bool reject_unknown_types_;
  std::stop_source stopped_;

  mutable std::mutex mutex_;
  bool runs_ = false;                   // guarded by mutex_
  std::shared_ptr<Consumer> consumer_;  // guarded by mutex_
};

Result<Inbox> Inbox::Open(InboxOptions options, Handlers handlers) {
  SEALANE_ASSIGN_OR_RETURN(ConsumerOptions consumer, ConsumerOptionsOf(options));
  if (Status readable = CheckReadable(options.broker); !readable) {
    return InWordsOfTheOptions(std::move(readable).error());
  }
  auto impl = std::make_unique<Impl>(std::move(consumer), options, std::move(handlers));
  // A wrong URL, a missing schema or a wrong password is better told now than waited for.
  SEALANE_RETURN_IF_ERROR(impl->OpenStore());
  return Inbox(std::move(impl));
}

Inbox::Inbox(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Inbox::~Inbox() = default;
Inbox::Inbox(Inbox&&) noexcept = default;
Inbox& Inbox::operator=(Inbox&&) noexcept = default;

Status Inbox::Run(std::stop_token stop) {
  return impl_->Run(stop, false);
}
Status Inbox::RunUntilCaughtUp(std::stop_token stop) {
  return impl_->Run(stop, true);
}
void Inbox::Stop() {
  impl_->Stop();
}
InboxStats Inbox::stats() const {
  return impl_->stats();
}

}  // namespace sealane
