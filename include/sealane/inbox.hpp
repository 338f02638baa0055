#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sealane/handler.hpp"
#include "sealane/inbox_mode.hpp"
#include "sealane/result.hpp"
#include "sealane/retry_policy.hpp"

namespace sealane {

/// What a consumer reads, where its effects go, and how it behaves. The first four are needed; docs/inbox.md tells
/// what the others are for.
struct InboxOptions {
  std::string store;                ///< `postgres://user@host:port/database` or `sqlite:PATH`
  std::string broker;               ///< `kafka://host:port,host:port` or `journal:PATH`
  std::string consumer;             ///< names the receipts and, at the broker, the group
  std::vector<std::string> topics;  ///< at least one

  InboxMode mode = InboxMode::kRecord;
  std::size_t workers = 4;
  std::size_t batch_max = 100;  ///< events per transaction; 1: each in its own
  bool guard_versions = false;  ///< apply an aggregate's versions one by one: older ones are stale, gaps wait
  std::chrono::milliseconds gap_timeout = std::chrono::minutes{5};
  GapPolicy gap_policy = GapPolicy::kHold;
  bool reject_unknown_types = false;  ///< types without a handler are dead instead of ignored

  /// Tenants that are allowed; empty: every one. Or a callback instead, which several threads may call at once.
  std::vector<std::string> tenants = {};
  std::function<bool(std::string_view tenant)> tenant_allowed = {};

  /// A policy, or the name of one: `patient`, `brief`, `payments`.
  std::variant<RetryPolicy, std::string> retry = RetryPolicy{};
  std::int32_t crash_budget = 3;       ///< an event that took so many processes with it is dead
  std::string dead_letter_topic = {};  ///< not empty: dead events are also appended to the store's outbox
  std::string owner_team = {};         ///< for dead letters: who looks after them
  std::string criticality = "normal";  ///< for dead letters
  std::optional<std::chrono::hours> retention = std::chrono::hours{24 * 30};  ///< of receipts; empty: for ever

  /// The circuit breaker: when at least `breaker_keys` order keys, and this share of those seen, fail permanently
  /// within the window, nothing is applied until a probe succeeds. Or `breaker_count`, whatever the share; 0: off.
  bool breaker = true;
  double breaker_share = 0.5;
  std::size_t breaker_keys = 20;
  std::size_t breaker_count = 0;
  std::chrono::milliseconds breaker_window = std::chrono::seconds{30};
  std::int64_t parked_max = 100'000;  ///< hold instead of parking more events than this; 0: no limit

  std::string member = {};  ///< this process among the group's, the same after a restart; empty: a new one each time
  std::chrono::milliseconds session = std::chrono::seconds{10};  ///< others take over after this much silence
  std::size_t memory_max = std::size_t{32} << 20U;               ///< messages that were read and are not done
  std::size_t recent_max = 20'000;                               ///< kOffsets: ids remembered per partition

  /// Properties of the broker's client by name, for Kafka those of librdkafka: `{"sasl.username", "billing"}`. Those
  /// that would break a guarantee are refused.
  std::vector<std::pair<std::string, std::string>> broker_properties = {};
  std::string store_password = {};  ///< when not in the URL, the environment or a passfile
  std::string schema = "sealane";   ///< PostgreSQL: where `sealane migrate up` put the tables
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds statement_timeout{30'000};
};

/// What an inbox knows about itself, copied out at one moment. Counts begin with each run.
struct InboxStats {
  std::string state = {};         ///< `starting`, `running`, `holding`, `draining`, `stopped`
  std::string problem = {};       ///< why it holds; empty when all is well
  std::string problem_code = {};  ///< stable
  std::string hold_code = {};     ///< `circuit_open`, `parked_limit`, `consumer_paused`, or empty
  bool store_reachable = true;
  bool broker_reachable = true;
  std::size_t partitions = 0;          ///< this process's share
  std::int64_t lag = 0;                ///< messages of these that are not done, as far as known
  std::size_t stopped_partitions = 0;  ///< not read until an operator decides; `problem` says why
  std::uint64_t inflight_messages = 0;
  std::uint64_t inflight_bytes = 0;
  std::int64_t parked = 0;  ///< set aside now, of the whole consumer; counted now and then
  std::int64_t dead = 0;    ///< of these: wait for a person
  std::int64_t gaps = 0;    ///< of these: wait for an earlier version

  std::uint64_t received = 0;
  std::uint64_t effects = 0;
  std::uint64_t ignored = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t stale = 0;
  std::uint64_t too_old = 0;          ///< older than the receipts that are kept: skipped
  std::uint64_t hash_mismatches = 0;  ///< the same id with other bytes
  std::uint64_t parked_total = 0;
  std::uint64_t dead_total = 0;
  std::uint64_t retries = 0;
  std::uint64_t transactions = 0;
  std::uint64_t rollbacks = 0;
  std::map<std::string, std::uint64_t> failures = {};  ///< by error code; bounded, the rest under `other`
};

/// Applies the events of some topics once each, with handlers of the application: effect and receipt commit together
/// in the application's database (docs/guarantees.md).
///
///     sealane::Handlers handlers;
///     handlers.On("OrderPlaced", ...);
///     auto inbox = sealane::Inbox::Open({.store = "postgres://billing@db/billing", .broker = "kafka://b1:9092",
///                                        .consumer = "billing", .topics = {"orders"}}, handlers);
///     if (!inbox) ...                        // says what to do: a bad URL, a missing schema, a wrong password
///     inbox->Run(stop);
///
/// Handlers run in threads of the inbox, several at once; those of one key one after the other. Movable; a moved-from
/// inbox can only be destroyed. It must not be destroyed while it runs.
class Inbox {
 public:
  /// Checks the options, and connects to the store once so that what is wrong with it is told now: kMisconfigured
  /// (`bad_store_url`, `bad_broker_url`, `broker_not_readable`, `schema_missing`, `invalid_consumer`, ...) or
  /// kUnavailable, with a hint. The broker is not reached for: one that is away is waited for.
  static Result<Inbox> Open(InboxOptions options, Handlers handlers);

  ~Inbox();
  Inbox(Inbox&&) noexcept;
  Inbox& operator=(Inbox&&) noexcept;

  /// Works in the caller's thread until `stop` or Stop() asks for the end; then lets transactions under way finish,
  /// tells the broker what is done, and leaves the group. A store or broker that is away does not end it. Errors are
  /// those that a person has to look at, and kMisuse (`inbox_runs`) when it runs already. May be called again.
  Status Run(std::stop_token stop = {});
  /// The same, but also ends when everything that is in the partitions is done or set aside, and nothing that was set
  /// aside is due.
  Status RunUntilCaughtUp(std::stop_token stop = {});
  /// Ends a run, and any later one at once. From any thread, a handler's included; not from a signal handler.
  void Stop();

  /// Thread-safe.
  InboxStats stats() const;

 private:
  class Impl;
  explicit Inbox(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sealane
