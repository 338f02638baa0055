#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sealane/event.hpp"
#include "sealane/order_mode.hpp"
#include "sealane/result.hpp"
#include "sealane/retry_policy.hpp"
#include "sealane/wire_profile.hpp"

namespace sealane {

/// What a relay carries. Patterns may contain `*`; an empty list lets everything pass.
struct RelayFilter {
  std::vector<std::string> topics = {};
  std::vector<std::string> types = {};
  std::vector<std::string> tenants = {};
  std::vector<std::string> aggregate_types = {};
};

/// Which outbox is shipped, where to, and how. The first two are needed; docs/relay.md tells what the others are for.
struct RelayOptions {
  std::string store;   ///< `postgres://user@host:port/database` or `sqlite:PATH`
  std::string broker;  ///< `kafka://host:port,host:port`, `journal:PATH`, `http(s)://...`, `stdout:` or `null:`

  std::string route = "main";  ///< names the progress: relays with the same route share its work
  OrderMode order = OrderMode::kKey;
  WireProfile profile = WireProfile::kEnvelope;
  std::string source = {};  ///< CloudEvents `source`; empty: `/sealane/<producer>`
  std::string topic = {};   ///< empty: the event's own; else a template, for example `shop.${aggregate_type}`
  RelayFilter filter = {};
  /// For events that their destination fails: a policy, or the name of one: `patient`, `brief`, `payments`. A broker
  /// that is away is nobody's fault and is waited for without limit.
  std::variant<RetryPolicy, std::string> retry = RetryPolicy{};
  bool dead_holds_followers = true;    ///< false: later events of a key go on without a dead one
  std::string dead_letter_topic = {};  ///< not empty: dead events are also published there
  bool fair = true;                    ///< tenants with a long backlog do not hold up the others

  std::string owner = {};  ///< shown to operators; empty: host and process id. Random digits are added to it
  std::chrono::milliseconds lease = std::chrono::seconds{10};          ///< others take over after this much silence
  std::chrono::milliseconds settle_interval{250};                      ///< progress is written at most this often
  std::chrono::milliseconds poll_max{400};                             ///< between looks at an idle log
  std::chrono::milliseconds drain_timeout = std::chrono::seconds{10};  ///< at a stop: for messages on their way
  std::size_t memory_max = std::size_t{20} << 20U;                     ///< events that were read and are not settled

  /// Properties of the broker's client by name, for Kafka those of librdkafka: `{"sasl.username", "shop"}`. Those
  /// that would break a guarantee are refused.
  std::vector<std::pair<std::string, std::string>> broker_properties = {};
  Headers http_headers = {};                                                 ///< HTTP: sent with every request
  std::chrono::milliseconds journal_retention = std::chrono::hours{24 * 7};  ///< journal: 0 keeps messages for ever
  std::string store_password = {};  ///< when not in the URL, the environment or a passfile
  std::string schema = "sealane";   ///< PostgreSQL: where `sealane migrate up` put the tables
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds statement_timeout{30'000};
};

/// What a relay knows about itself, copied out at one moment. Counts begin with each run.
struct RelayStats {
  std::string state = {};         ///< `starting`, `running`, `holding`, `paused`, `draining`, `stopped`
  std::string problem = {};       ///< why it holds or has no store; empty when all is well
  std::string problem_code = {};  ///< stable
  bool store_reachable = true;
  std::size_t lanes = 0;              ///< this process's share
  std::int32_t live_relays = 0;       ///< of the route, this one included
  std::int64_t pending = 0;           ///< events that are not done, as far as known
  double oldest_pending_seconds = 0;  ///< 0 when nothing is pending
  std::uint64_t inflight_messages = 0;
  std::uint64_t inflight_bytes = 0;
  std::int64_t parked = 0;  ///< set aside now, of the whole route; counted now and then

  std::uint64_t published = 0;
  std::uint64_t published_bytes = 0;
  std::uint64_t filtered = 0;
  std::uint64_t repeated = 0;  ///< sent again after an unknown outcome: possible duplicates
  std::uint64_t parked_total = 0;
  std::uint64_t dead_total = 0;
  std::map<std::string, std::uint64_t> failures = {};  ///< by error code; bounded, the rest under `other`
  std::map<std::string, std::uint64_t> topics = {};    ///< published, by the events' topic; bounded
};

/// Ships what was committed to an outbox to a broker, inside an application: the same engine as `sealane relay`, with
/// the same promises (docs/guarantees.md).
///
///     auto relay = sealane::Relay::Open({.store = "postgres://shop@db/shop", .broker = "kafka://b1:9092"});
///     if (!relay) ...                        // says what to do: a bad URL, a missing schema, a wrong password
///     std::jthread shipping([&](std::stop_token stop) { relay->Run(stop); });
///
/// Any number of them, embedded or not, share the lanes of a route; any may die at any moment. Movable; a moved-from
/// relay can only be destroyed. It must not be destroyed while it runs.
class Relay {
 public:
  /// Checks the options, and connects to the store once so that what is wrong with it is told now: kMisconfigured
  /// (`bad_store_url`, `bad_broker_url`, `schema_missing`, `bad_option`, ...) or kUnavailable, with a hint. The
  /// broker is not waited for: one that is away holds events back until it returns.
  static Result<Relay> Open(RelayOptions options);

  ~Relay();
  Relay(Relay&&) noexcept;
  Relay& operator=(Relay&&) noexcept;

  /// Works until `stop` or Stop() asks for the end; then waits for messages on their way, settles, and gives its
  /// lanes back. Blocks the caller, and has threads of its own. A store or broker that is away does not end it.
  /// kInDoubt (`delivery_unresolved`) when messages were left without an answer: they are sent again by the next
  /// relay and may arrive twice. kMisuse (`relay_runs`) when it runs already. May be called again.
  Status Run(std::stop_token stop = {});
  /// The same, but also ends when everything that was committed when it began is published or set aside.
  Status RunUntilDrained(std::stop_token stop = {});
  /// Ends a run, and any later one at once. From any thread; not from a signal handler.
  void Stop();

  /// Says that something was committed: the next look at the log happens at once instead of within `poll_max`.
  /// Thread-safe, cheap, and never needed for correctness.
  void Wake();
  /// Thread-safe.
  RelayStats stats() const;

 private:
  class Impl;
  explicit Relay(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sealane
