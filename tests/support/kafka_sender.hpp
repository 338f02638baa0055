#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sealane/random.hpp"

#include "kafka/kafka_publisher.hpp"
#include "support/kafka_cluster.hpp"

namespace sealane::testing {

/// Nothing takes that long unless it never ends.
constexpr std::chrono::seconds kLong{60};

struct Letter {
  std::string topic;
  std::string key;
  std::string value;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// Bytes that no compression makes smaller; the same for the same seed.
inline std::string Noise(std::size_t size, std::uint64_t seed) {
  SeededRandom random(seed);
  std::string bytes(size, '\0');
  random.Fill(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

/// A publisher and what a careful caller does with it. Tokens are positions in `letters`.
class Sender {
 public:
  explicit Sender(const KafkaOptions& options)
      : publisher_(ValueOrThrow(OpenKafkaPublisher(options, SystemClock::Instance()))) {}

  Publisher& publisher() { return *publisher_; }
  const std::vector<Delivery>& deliveries() const { return deliveries_; }
  PublisherHealth::State state() const { return publisher_->health().state; }

  Submitted TrySubmit(const Letter& letter, std::uint64_t token) {
    std::vector<HeaderView> headers;
    for (const auto& [name, value] : letter.headers) headers.push_back({name, value});
    OutgoingMessage message;
    message.token = token;
    message.topic = letter.topic;
    message.key = letter.key;
    message.value = letter.value;
    message.headers = headers;
    return publisher_->Submit(message);
  }
  /// Submits, making room when there is none.
  void Submit(const Letter& letter, std::uint64_t token) {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    while (TrySubmit(letter, token) == Submitted::kFull) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "full for ever";
      publisher_->Collect(deliveries_, std::chrono::milliseconds{100});
    }
    ++submitted_;
  }
  void CollectOnce(std::chrono::milliseconds wait) { publisher_->Collect(deliveries_, wait); }
  /// Collects until every submitted message has its delivery.
  void CollectAll(std::chrono::milliseconds limit = kLong) {
    CollectUntil([&] { return deliveries_.size() >= submitted_; }, limit);
    EXPECT_EQ(deliveries_.size(), submitted_);
  }
  template <class Condition>
  bool CollectUntil(Condition done, std::chrono::milliseconds limit = kLong) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!done() && std::chrono::steady_clock::now() < deadline)
      publisher_->Collect(deliveries_, std::chrono::milliseconds{50});
    return done();
  }
  std::vector<Delivery> TakeDeliveries() {
    submitted_ -= deliveries_.size();
    return std::exchange(deliveries_, {});
  }

  /// What the relay does: submits all in order, and sends again, in order, what comes back because of an outage.
  /// Returns the final deliveries by position.
  std::vector<Delivery> Ship(const std::vector<Letter>& letters) {
    std::vector<Delivery> fates(letters.size());
    std::vector<std::uint64_t> todo(letters.size());
    for (std::size_t i = 0; i < letters.size(); ++i) todo[i] = i;
    const auto deadline = std::chrono::steady_clock::now() + 2 * kLong;
    while (!todo.empty() && std::chrono::steady_clock::now() < deadline) {
      for (const std::uint64_t token : todo) Submit(letters[token], token);
      CollectAll();
      todo.clear();
      for (Delivery& delivery : TakeDeliveries()) {
        const bool again = delivery.status != DeliveryStatus::kPersisted && delivery.failure == FailureClass::kOutage;
        if (again) todo.push_back(delivery.token);
        fates[delivery.token] = std::move(delivery);
      }
      std::sort(todo.begin(), todo.end());
    }
    EXPECT_THAT(todo, ::testing::IsEmpty()) << "still not delivered";
    return fates;
  }

 private:
  std::unique_ptr<Publisher> publisher_;
  std::vector<Delivery> deliveries_;
  std::size_t submitted_ = 0;
};

/// Matches a delivery that arrived.
inline auto IsPersisted() {
  return ::testing::Field("status", &Delivery::status, DeliveryStatus::kPersisted);
}

inline void ExpectFailure(const Delivery& delivery, DeliveryStatus status, FailureClass failure,
                          std::string_view code) {
  EXPECT_EQ(ToString(delivery.status), ToString(status)) << delivery.message;
  EXPECT_EQ(ToString(delivery.failure), ToString(failure)) << delivery.message;
  EXPECT_EQ(delivery.code, code) << delivery.message;
  EXPECT_NE(delivery.message, "");
}

/// The numbers that are the values of a key's records, first appearances only.
inline std::map<std::string, std::vector<int>> FirstAppearances(const std::vector<KafkaRecord>& records) {
  std::map<std::string, std::vector<int>> numbers;
  std::set<std::pair<std::string, int>> seen;
  for (const KafkaRecord& record : records) {
    const int number = std::stoi(record.value);
    if (seen.emplace(record.key, number).second) numbers[record.key].push_back(number);
  }
  return numbers;
}

/// `count` letters over `keys` keys; the value of each is its number within the key.
inline std::vector<Letter> NumberedLetters(const std::string& topic, int count, int keys) {
  std::vector<Letter> letters;
  for (int i = 0; i < count; ++i) {
    letters.push_back({topic, fmt::format("key-{}", i % keys), std::to_string(i / keys)});
  }
  return letters;
}

inline void ExpectAllInOrder(const std::vector<KafkaRecord>& records, int count, int keys) {
  const auto numbers = FirstAppearances(records);
  EXPECT_EQ(static_cast<int>(numbers.size()), keys);
  std::size_t sum = 0;
  for (const auto& [key, sequence] : numbers) {
    EXPECT_TRUE(std::is_sorted(sequence.begin(), sequence.end())) << key << " is out of order";
    sum += sequence.size();
  }
  EXPECT_EQ(static_cast<int>(sum), count) << "lost";
}

}  // namespace sealane::testing
