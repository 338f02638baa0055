#include "bench_inbox/our_consumer.hpp"

#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "bench_inbox/feed.hpp"
#include "bench_inbox/meter.hpp"
#include "common/session.hpp"
#include "core/wire_reader.hpp"
#include "inbox/consumer.hpp"
#include "journal/journal_subscription.hpp"
#include "kafka/kafka_subscription.hpp"
#include "postgres/postgres_store.hpp"
#include "sqlite/sqlite_store.hpp"

namespace sealane::bench {
namespace {

constexpr std::string_view kSqlite = "sqlite:";
constexpr std::string_view kJournal = "journal:";
constexpr std::string_view kAwaited = "-awaited";
constexpr std::chrono::milliseconds kLook{2};
constexpr std::chrono::minutes kStuck{2};

Result<Envelope> Read(const ReceivedMessage& message) {
  return FromWire({.topic = message.partition.topic,
                   .key = message.key,
                   .value = message.value,
                   .headers = message.headers,
                   .published_at = message.published_at});
}

OpenInboxStore StoreOf(const Contestant& contestant, const ConsumerOptions& options) {
  return [store = contestant.store, consumer = options.consumer,
          mode = options.mode]() -> Result<std::unique_ptr<InboxStore>> {
    if (store.starts_with(kSqlite)) {
      return sqlite::OpenInboxStore({.path = store.substr(kSqlite.size())}, consumer, mode);
    }
    return postgres::OpenInboxStore({.url = store}, consumer, mode);
  };
}

OpenSubscription SourceOf(const Contestant& contestant, const ConsumerOptions& options) {
  return [contestant, group = options.consumer]() -> Result<std::unique_ptr<Subscription>> {
    if (contestant.source.starts_with(kJournal)) {
      return OpenJournalSubscription({.path = contestant.source.substr(kJournal.size())},
                                     {.group = group, .member = "only", .topics = {contestant.topic}},
                                     SystemClock::Instance());
    }
    return OpenKafkaSubscription({.url = contestant.source, .group = group, .topics = {contestant.topic}},
                                 SystemClock::Instance());
  };
}

double ResidentMib() {
  std::ifstream statm("/proc/self/statm");
  double total = 0;
  double resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1024 * 1024);
}

/// Runs a consumer until it has had `events` effects. `look` is called every few milliseconds with how many it had.
void Consume(const Contestant& contestant, const OpenSubscription& source, Meter& meter,
             const std::function<void(std::size_t)>& look) {
  ConsumerOptions options;
  options.consumer = fmt::format("bench-{}", ::getpid());
  const bool awaited = contestant.way.ends_with(kAwaited);
  options.mode =
      ParseInboxMode(contestant.way.substr(0, contestant.way.size() - (awaited ? kAwaited.size() : 0))).value();
  options.workers = contestant.workers;
  options.batch_max = contestant.batch;
  const std::string sql = UpsertSql(contestant.store.starts_with(kSqlite));
  const Handling effect = [&](const Envelope& event, const ReceivedMessage&, HandlerTransaction& tx) {
    meter.Begin();
    const std::array<SqlValue, 2> values = {event.key, event.payload};
    if (awaited) {
      (void)ValueOrThrow(tx.Execute(sql, values));
    } else {
      ValueOrThrow(tx.Post(sql, values));
    }
    return Decision::Done();
  };
  Consumer consumer(options, effect, Read, StoreOf(contestant, options),
                    source ? source : SourceOf(contestant, options), SystemClock::Instance(),
                    SystemRandom::Instance());
  std::optional<Status> end;
  std::atomic<bool> ended = false;
  std::jthread runner([&](const std::stop_token& stop) {
    end = consumer.Run(stop);
    ended = true;
  });
  std::size_t effects = 0;
  Stopwatch since_effect;
  while (effects < contestant.events) {
    std::this_thread::sleep_for(kLook);
    const ConsumerStats stats = consumer.stats();
    if (ended) Fail("the consumer ended: " + (*end ? "without an error" : end->error().ToString()));
    if (stats.effects != effects) since_effect = {};
    if (since_effect.seconds() > std::chrono::duration<double>(kStuck).count()) {
      Fail(fmt::format("the consumer stands still: {} {}", stats.problem, stats.stuck));
    }
    effects = stats.effects;
    look(effects);
  }
}

}  // namespace

Lap RunConsumer(const Contestant& contestant) {
  OpenSubscription source;
  if (contestant.source == "memory") {
    auto messages = std::make_shared<std::vector<ReceivedMessage>>();
    Feed feed;
    for (std::size_t i = 0; i < contestant.events; ++i) messages->push_back(feed.Next());
    source = [messages]() -> Result<std::unique_ptr<Subscription>> {
      return std::unique_ptr<Subscription>(std::make_unique<FeedSubscription>(messages));
    };
  }
  Meter meter;
  Lap lap;
  Consume(contestant, source, meter, [&](std::size_t effects) {
    if (effects >= contestant.events) lap = meter.End(contestant.events);
  });
  return lap;
}

std::vector<MemoryMark> WatchConsumer(const Contestant& contestant, const std::vector<std::size_t>& at) {
  Meter meter;
  std::vector<MemoryMark> marks;
  const OpenSubscription source = [&]() -> Result<std::unique_ptr<Subscription>> {
    return std::unique_ptr<Subscription>(std::make_unique<FeedSubscription>(contestant.events));
  };
  Consume(contestant, source, meter, [&](std::size_t effects) {
    while (marks.size() < at.size() && effects >= at[marks.size()]) {
      marks.push_back({at[marks.size()], ResidentMib()});
    }
  });
  return marks;
}

}  // namespace sealane::bench
