#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sealane/outbox.hpp"

#include "common/kafka_topic.hpp"
#include "common/session.hpp"

namespace sealane::bench {

/// What a lap of healthy traffic brought.
struct Latency {
  double p50_ms = 0;
  double p99_ms = 0;
  double rate = 0;          ///< events per second that were really written
  std::size_t events = 0;   ///< of the lap
  std::size_t missing = 0;  ///< had not arrived at the end; counted with the time until then
  double cpu = 0;           ///< share of a core that the relay or consumer took meanwhile; 0: not measured
  double server = 0;        ///< that its backends took
};
Latency Summarise(std::vector<double> milliseconds, std::size_t missing, double seconds);

/// Called now and then by a lap; the lap ends when it is false.
using GoOn = std::function<bool()>;
/// A lap of this many seconds.
GoOn For(double seconds);

/// Healthy traffic beside whatever a scenario does: 200 events a second, one per transaction.
inline constexpr double kPerSecond = 200;
/// How long the last events of a lap may take to arrive.
inline constexpr std::chrono::seconds kLateMax{15};

/// Reads a topic from its beginning with a Kafka consumer of its own. The number of an event is what stands after the
/// last `-` of its key.
class Arrivals {
 public:
  Arrivals(const std::string& broker_url, const std::string& topic);
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  /// Different numbers that came.
  std::size_t count() const;
  /// When each came for the first time.
  std::map<std::size_t, std::chrono::system_clock::time_point> times() const;
  bool Has(std::size_t number) const;

 private:
  void Read(const std::stop_token& stop);

  mutable std::mutex mutex_;
  std::map<std::size_t, std::chrono::system_clock::time_point> times_;
  KafkaClient client_;
  std::jthread reader_;
};

/// An event for a topic whose key is `PREFIX-NUMBER`, with a JSON payload of about 300 bytes.
Event MakeEvent(const std::string& topic, const std::string& prefix, std::size_t number, std::string tenant = {});

/// Appends events of twenty tenants to an outbox and measures from the return of COMMIT to the arrival at a Kafka
/// consumer, with whatever relay runs between the two.
class RelayProbe {
 public:
  RelayProbe(const std::string& url, const std::string& broker_url);

  /// Appends one event and waits until it arrives.
  bool AwaitFlow(std::chrono::seconds limit);
  Latency Lap(const GoOn& go_on);
  const std::string& topic() const { return topic_.name(); }

 private:
  void Write();

  FreshTopic topic_;
  Arrivals arrivals_;
  Session session_;
  Outbox outbox_{{.producer = "bench"}};
  std::vector<std::chrono::system_clock::time_point> committed_;
};

/// Produces messages to a topic and measures from there to the moment when the consumer's SQL statement writes the
/// effect into `table (key text, at timestamptz default clock_timestamp())`.
class ConsumerProbe {
 public:
  ConsumerProbe(const std::string& url, const std::string& broker_url, std::string table);

  bool AwaitFlow(std::chrono::seconds limit);
  Latency Lap(const GoOn& go_on);
  const std::string& topic() const { return topic_.name(); }

 private:
  void Write();
  std::size_t Effects(std::size_t from) const;

  FreshTopic topic_;
  KafkaClient producer_;
  Session session_;
  std::string table_;
  std::vector<std::chrono::system_clock::time_point> produced_;
};

/// Produces `count` messages with keys `PREFIX-0`, `PREFIX-1`, ... and waits until the broker has them.
void ProduceAll(const std::string& broker_url, const std::string& topic, const std::string& prefix,
                std::size_t count);

}  // namespace sealane::bench
