// Protects whoever waits in Collect() from librdkafka: neither a producer that cannot be made nor brokers that do not
// answer may keep it longer than it asked for.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>

#include "kafka/kafka_publisher.hpp"
#include "support/kafka_cluster.hpp"
#include "support/kafka_sender.hpp"

namespace {
std::atomic<bool> no_more_producers{false};
}  // namespace

// A definition in the executable comes before that of the shared library.
extern "C" rd_kafka_t* rd_kafka_new(rd_kafka_type_t type, rd_kafka_conf_t* conf, char* reason, std::size_t size) {
  if (no_more_producers) {
    if (size > 0) *reason = '\0';
    return nullptr;
  }
  static const auto original = reinterpret_cast<decltype(&rd_kafka_new)>(::dlsym(RTLD_NEXT, "rd_kafka_new"));
  return original(type, conf, reason, size);
}

namespace sealane {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::FreshTopic;
using testing::KafkaUrl;
using testing::Sender;
using State = PublisherHealth::State;

TEST(KafkaLibraryFailures, AProducerThatCannotBeReplacedKeepsNobodyWaiting) {
  SEALANE_REQUIRE_KAFKA();
  const std::string topic = FreshTopic(KafkaUrl(), 1);
  KafkaOptions options{.url = KafkaUrl()};
  options.properties = {{"linger.ms", "60000"}};
  Sender sender(options);
  for (std::uint64_t i = 0; i < 3; ++i) sender.Submit({topic, "k", "1"}, i);
  sender.CollectOnce(500ms);  // the topic is open, and the first message is under way
  const auto start = steady_clock::now();
  no_more_producers = true;
  sender.publisher().Abandon();
  // Ends by itself, so that the test does also when it fails.
  std::jthread again([](std::stop_token stop) {
    SystemClock::Instance().SleepFor(10s, stop);
    no_more_producers = false;
  });
  sender.CollectOnce(0ms);
  const auto took = steady_clock::now() - start;
  EXPECT_EQ(sender.deliveries().size(), 3U);
  EXPECT_LT(took, 8s);
  EXPECT_EQ(sender.state(), State::kMisconfigured);
  again.request_stop();
  again.join();
  EXPECT_TRUE(sender.CollectUntil([&] {
    return sender.TrySubmit({topic, "k", "2"}, 9) == Submitted::kTaken;
  })) << "it goes on by itself";
}

TEST(KafkaLibraryFailures, ManyTopicsWithoutABrokerDoNotHoldUpCollect) {
  Sender sender({.url = "kafka://127.0.0.1:1"});
  for (std::uint64_t i = 0; i < 60; ++i) sender.Submit({fmt::format("topic-{}", i), "k", "v"}, i);
  const auto end = steady_clock::now() + 5s;  // the first questions end in vain after two
  auto longest = steady_clock::duration::zero();
  while (steady_clock::now() < end) {
    const auto start = steady_clock::now();
    sender.CollectOnce(10ms);
    longest = std::max(longest, steady_clock::now() - start);
  }
  EXPECT_LT(longest, 2s) << "60 topics, each waiting 250 ms in vain, are 15 s";
  EXPECT_TRUE(sender.deliveries().empty());
}

}  // namespace
}  // namespace sealane
