// What every publisher promises to the relay: one delivery for each message, keys in order, bytes as they were,
// bounded memory, patience with a destination that is away, and a clean way out.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/courier.hpp"
#include "support/kafka_cluster.hpp"
#include "support/publisher_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;

class PublisherContract : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "kafka") SEALANE_REQUIRE_KAFKA();
    fixture_ = MakePublisherFixture(GetParam());
  }
  std::string topic() const { return fixture_->topic(); }
  /// The values that arrived, by key.
  std::map<std::string, std::vector<std::string>> ArrivedByKey(std::size_t count) {
    std::map<std::string, std::vector<std::string>> by_key;
    for (ArrivedMessage& message : fixture_->Arrived(count)) by_key[message.key].push_back(std::move(message.value));
    return by_key;
  }

  std::unique_ptr<PublisherFixture> fixture_;
};

INSTANTIATE_TEST_SUITE_P(Publisher, PublisherContract, ::testing::ValuesIn(PublisherKinds()),
                         [](const auto& test) { return test.param; });

class PublisherOutageContract : public PublisherContract {};

INSTANTIATE_TEST_SUITE_P(Publisher, PublisherOutageContract, ::testing::ValuesIn(PublisherKindsWithOutage()),
                         [](const auto& test) { return test.param; });

void ExpectAllPersisted(const Courier& courier) {
  std::set<std::uint64_t> tokens;
  for (const Delivery& delivery : courier.deliveries()) {
    EXPECT_EQ(delivery.status, DeliveryStatus::kPersisted) << delivery.code << ": " << delivery.message;
    EXPECT_TRUE(tokens.insert(delivery.token).second) << "a second delivery for " << delivery.token;
  }
  EXPECT_EQ(tokens.size(), courier.sent());
}

TEST_P(PublisherContract, GivesEachMessageOneDeliveryAndKeepsKeysInOrder) {
  constexpr int kMessages = 500;
  constexpr int kKeys = 13;
  const auto publisher = fixture_->Open();
  // Somebody looks at its health and interrupts it all the time, as the relay's other threads do.
  std::atomic<bool> done{false};
  std::jthread onlooker([&] {
    while (!done) {
      EXPECT_NE(publisher->health().state, PublisherHealth::State::kMisconfigured);
      publisher->Interrupt();
      std::this_thread::yield();
    }
  });
  Courier courier(*publisher);
  std::map<std::string, std::vector<std::string>> expected;
  for (int i = 0; i < kMessages; ++i) {
    const std::string key = fmt::format("key-{}", i % kKeys);
    expected[key].push_back(std::to_string(i));
    courier.Send(topic(), key, std::to_string(i));
    if (i % 50 == 0) courier.Collect(milliseconds{0});
  }
  courier.CollectAll();
  done = true;
  onlooker.join();
  ExpectAllPersisted(courier);
  EXPECT_EQ(ArrivedByKey(kMessages), expected);
}

TEST_P(PublisherContract, CarriesBytesKeysAndHeadersUnchanged) {
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte.push_back(static_cast<char>(i));
  const std::vector<std::string> values = {every_byte, "", "{\"a\" : 1.10}\n", std::string(300'000, 'x'), "\r\n\r\n"};
  const std::string key = "Gr\xc3\xbc\xc3\x9f\x65 / 100% \"k\"";
  const auto publisher = fixture_->Open();
  Courier courier(*publisher);
  for (const std::string& value : values) {
    courier.Send(topic(), key, value, {{"content-type", "text/plain"}, {"note", "Stra\xc3\x9f\x65"}});
  }
  courier.CollectAll();
  ExpectAllPersisted(courier);
  const auto arrived = fixture_->Arrived(values.size());
  ASSERT_EQ(arrived.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(arrived[i].key, key);
    EXPECT_TRUE(arrived[i].value == values[i]) << "value " << i << " has changed";
    EXPECT_THAT(arrived[i].headers, ::testing::Contains(Header{"content-type", "text/plain"}));
    EXPECT_THAT(arrived[i].headers, ::testing::Contains(Header{"note", "Stra\xc3\x9f\x65"}));
  }
}

TEST_P(PublisherContract, SaysFullAndHasRoomAgain) {
  const auto publisher = fixture_->Open({.messages_max = 3});
  Courier courier(*publisher);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3; ++i) EXPECT_NE(courier.TrySend(topic(), "o-1", "x"), 0U) << "round " << round;
    EXPECT_EQ(courier.TrySend(topic(), "o-1", "x"), 0U) << "the fourth without collecting";
    courier.CollectAll();
  }
  ExpectAllPersisted(courier);
  EXPECT_EQ(fixture_->Arrived(9).size(), 9U);
}

TEST_P(PublisherContract, TakesALargeMessageWhenItHoldsNothing) {
  const auto publisher = fixture_->Open({.messages_max = 100, .bytes_max = 1'000});
  Courier courier(*publisher);
  const std::string large(20'000, 'x');
  EXPECT_NE(courier.TrySend(topic(), "o-1", large), 0U);
  EXPECT_EQ(courier.TrySend(topic(), "o-1", large), 0U);
  courier.CollectAll();
  EXPECT_NE(courier.TrySend(topic(), "o-1", large), 0U);
  courier.CollectAll();
  ExpectAllPersisted(courier);
}

TEST_P(PublisherOutageContract, WaitsAndTellsWhileTheDestinationIsAway) {
  const auto publisher = fixture_->Open();
  Courier courier(*publisher);
  courier.Send(topic(), "o-1", "0");
  courier.CollectAll();
  fixture_->BeginOutage();
  for (int i = 1; i <= 10; ++i) courier.Send(topic(), "o-1", std::to_string(i));
  const auto deadline = std::chrono::steady_clock::now() + seconds{30};
  courier.Collect(milliseconds{20});
  while (fixture_->tells_outage() && publisher->health().state == PublisherHealth::State::kReady &&
         std::chrono::steady_clock::now() < deadline) {
    courier.Collect(milliseconds{20});
  }
  EXPECT_EQ(courier.deliveries().size(), 1U) << "an outage is not an answer";
  if (fixture_->tells_outage()) {
    EXPECT_EQ(publisher->health().state, PublisherHealth::State::kUnreachable);
    ASSERT_TRUE(publisher->health().problem.has_value());
    EXPECT_FALSE(publisher->health().problem->hint().empty());
  }
  fixture_->EndOutage();
  courier.CollectAll();
  ExpectAllPersisted(courier);
  EXPECT_EQ(publisher->health().state, PublisherHealth::State::kReady);
  EXPECT_THAT(ArrivedByKey(11)["o-1"],
              ::testing::ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"));
}

TEST_P(PublisherOutageContract, AbandonGivesEverythingBackAndNothingArrivesLater) {
  const auto publisher = fixture_->Open();
  Courier courier(*publisher);
  fixture_->BeginOutage();
  for (int i = 0; i < 20; ++i) courier.Send(topic(), fmt::format("key-{}", i % 4), "given up");
  courier.Collect(milliseconds{10});
  publisher->Abandon();
  courier.CollectAll();
  for (const Delivery& delivery : courier.deliveries()) {
    EXPECT_EQ(delivery.status, DeliveryStatus::kNotPersisted);
    EXPECT_EQ(delivery.failure, FailureClass::kOutage);
    EXPECT_EQ(delivery.code, "abandoned");
  }
  fixture_->EndOutage();
  const auto later = courier.Send(topic(), "key-0", "later");
  courier.CollectAll();
  EXPECT_EQ(courier.DeliveryOf(later).status, DeliveryStatus::kPersisted);
  const auto arrived = fixture_->Arrived(1);
  ASSERT_EQ(arrived.size(), 1U);
  EXPECT_EQ(arrived[0].value, "later");
}

TEST_P(PublisherContract, AbandonNeverCallsPersistedWhatIsNot) {
  const auto publisher = fixture_->Open();
  Courier courier(*publisher);
  for (int i = 0; i < 200; ++i) courier.Send(topic(), fmt::format("key-{}", i % 5), std::to_string(i));
  courier.Collect(milliseconds{1});
  publisher->Abandon();
  courier.CollectAll();
  std::set<std::string> certain;
  std::set<std::string> refused;
  for (const Delivery& delivery : courier.deliveries()) {
    const std::string value = std::to_string(delivery.token - 1);
    if (delivery.status == DeliveryStatus::kPersisted) certain.insert(value);
    if (delivery.status == DeliveryStatus::kNotPersisted) refused.insert(value);
  }
  courier.Send(topic(), "last", "end");
  courier.CollectAll();
  std::set<std::string> arrived;
  for (const ArrivedMessage& message : fixture_->Arrived(certain.size() + 1)) arrived.insert(message.value);
  EXPECT_TRUE(std::ranges::includes(arrived, certain)) << "said to be persisted, and lost";
  for (const std::string& value : refused) EXPECT_FALSE(arrived.contains(value)) << value << " arrived all the same";
}

TEST_P(PublisherContract, InterruptEndsTheWaitGoingOnOrTheNext) {
  const auto publisher = fixture_->Open();
  std::vector<Delivery> none;
  const auto begin = std::chrono::steady_clock::now();
  publisher->Interrupt();
  publisher->Collect(none, seconds{60});

  std::jthread other([&] {
    // Whichever comes first, the wait or the interruption: the wait ends.
    publisher->Interrupt();
  });
  publisher->Collect(none, seconds{60});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds{50});
  EXPECT_TRUE(none.empty());
}

TEST_P(PublisherContract, CollectWaitsNoLongerThanTold) {
  const auto publisher = fixture_->Open();
  std::vector<Delivery> none;
  const auto begin = std::chrono::steady_clock::now();
  publisher->Collect(none, milliseconds{30});
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, milliseconds{25}) << "a caller that has nothing else to do relies on the wait";
  EXPECT_LT(took, seconds{20});
}

TEST_P(PublisherContract, EndsWhileMessagesAreHeld) {
  auto publisher = fixture_->Open();
  Courier courier(*publisher);
  for (int i = 0; i < 50; ++i) courier.Send(topic(), std::to_string(i), "x");
  courier.Collect(milliseconds{0});
  publisher.reset();
}

}  // namespace
}  // namespace sealane
