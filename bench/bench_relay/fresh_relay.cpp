#include "bench_relay/fresh_relay.hpp"

#include <atomic>

#include <fmt/format.h>
#include <unistd.h>

#include "broker/null_publisher.hpp"
#include "kafka/kafka_publisher.hpp"
#include "postgres/postgres_store.hpp"

namespace sealane::bench {

RouteOptions FreshRoute(const Destination& destination) {
  static std::atomic<int> counter{0};
  RouteOptions options;
  options.route = fmt::format("bench-{}-{}", ::getpid(), ++counter);
  options.owner = "owner-of-" + options.route;
  options.profile = destination.profile;
  options.topic_template = destination.topic;
  return options;
}

OpenPublisher PublisherTo(const Destination& destination) {
  return [url = destination.broker_url]() -> Result<std::unique_ptr<Publisher>> {
    if (url.empty()) return MakeNullPublisher();
    return OpenKafkaPublisher({.url = url}, SystemClock::Instance());
  };
}

std::unique_ptr<RouteRelay> MakeRelay(const std::string& url, const RouteOptions& options,
                                      OpenPublisher open_publisher) {
  const auto open_log = [url, route = options.route, owner = options.owner] {
    return postgres::OpenOutboxLog({.url = url}, route, owner);
  };
  return std::make_unique<RouteRelay>(options, open_log, std::move(open_publisher), SystemClock::Instance(),
                                      SystemRandom::Instance());
}

}  // namespace sealane::bench
