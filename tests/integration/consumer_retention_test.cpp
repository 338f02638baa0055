// Protects what happens to events that come again after everything about them was forgotten: with receipts they are
// refused, without receipts the position or the version passes over them. Never is there a second effect. Through the
// whole runtime, on the databases that applications use.

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/sha256.hpp"
#include "inbox/consumer.hpp"
#include "memory/memory_subscription.hpp"
#include "support/inbox_fixture.hpp"

namespace sealane::testing {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kTopic = "orders";
constexpr int kKeys = 4;
constexpr int kVersions = 5;

class ConsumerRetention : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { topics_.MakeTopic(kTopic, 2); }

  Envelope Make(const std::string& key, std::int64_t version) {
    Envelope event;
    event.id = ids_.Next();
    event.type = "OrderChanged";
    event.topic = kTopic;
    event.key = key;
    event.aggregate = {.type = "order", .id = key, .version = version};
    event.content_type = "application/json";
    event.occurred_at = clock_.Now();
    event.payload = "1";
    event.payload_hash = Sha256(event.payload);
    return event;
  }

  /// Versions of some keys, each applied once.
  void ApplyAll(ConsumerOptions options) {
    for (int version = 1; version <= kVersions; ++version) {
      for (int key = 0; key < kKeys; ++key) events_.push_back(Make(fmt::format("k{}", key), version));
    }
    Publish();
    Apply(std::move(options));
    ASSERT_EQ(fixture_->Effects().size(), events_.size());
  }
  void Publish() {
    for (const Envelope& event : events_) topics_.Publish(std::string(kTopic), event.key, ToJson(event));
  }

  /// As an operator does it who has everything read again.
  void SetBack() {
    for (std::int32_t number = 0; number < 2; ++number) fixture_->SetResume("billing", {kTopic, number}, "beginning");
  }

  /// Lets a process apply what is there.
  ConsumerStats Apply(ConsumerOptions options) {
    const InboxMode mode = options.mode;
    // Databases go by their own clocks, which no test moves. To them the retention is shorter by what has passed
    // here.
    *options.retention -= passed_;
    Consumer consumer(
        std::move(options),
        [this](const Envelope& event, const ReceivedMessage&, HandlerTransaction& tx) {
          ValueOrThrow(fixture_->Affect(tx, fmt::format("{} {}", event.key, *event.aggregate.version)));
          return Decision::Done();
        },
        [](const ReceivedMessage& message) { return EnvelopeFromJson(message.value); },
        [this, mode] { return fixture_->TryOpen("billing", mode); },
        [this]() -> Result<std::unique_ptr<Subscription>> { return topics_.Join("billing", {kTopic}); }, clock_,
        random_);
    // Long enough for the housekeeping to come round.
    for (int i = 0; i < 20; ++i) {
      for (int step = 0; step < 20; ++step) ValueOrThrow(consumer.RunOnce());
      clock_.Advance(seconds{30});
    }
    ValueOrThrow(consumer.Close());
    return consumer.stats();
  }

  ConsumerOptions Options(InboxMode mode) const {
    ConsumerOptions options;
    options.consumer = "billing";
    options.mode = mode;
    options.workers = 2;
    options.batch_max = 3;
    options.retention = hours{24};
    options.recent_max = 1;  // forgets as soon as it may
    options.commit_interval = options.retry_interval = std::chrono::milliseconds{0};
    return options;
  }
  void LetRetentionPass() {
    passed_ = hours{24 * 3};
    clock_.Advance(passed_);
  }

  InboxFixture& fixture() { return *fixture_; }
  MemoryTopics& topics() { return topics_; }
  std::size_t published() const { return events_.size(); }

 private:
  std::unique_ptr<InboxFixture> fixture_ = MakeInboxFixture(GetParam());
  ManualClock clock_{SystemClock::Instance().Now()};
  SeededRandom random_{7};
  EventIdGenerator ids_{clock_, random_};
  MemoryTopics topics_{clock_};
  std::vector<Envelope> events_;
  hours passed_{0};
};

INSTANTIATE_TEST_SUITE_P(Store, ConsumerRetention, ::testing::Values("sqlite", "postgres"),
                         [](const auto& test) { return test.param; });

TEST_P(ConsumerRetention, WithReceiptsAReplayOlderThanTheRetentionIsRefused) {
  const ConsumerOptions options = Options(InboxMode::kRecord);
  ApplyAll(options);
  LetRetentionPass();
  Apply(options);  // forgets
  SetBack();
  const ConsumerStats replay = Apply(options);
  EXPECT_EQ(replay.received, published());
  EXPECT_EQ(replay.effects, 0U);
  EXPECT_EQ(replay.too_old, published());
  EXPECT_EQ(replay.dead_total, 0U);
  EXPECT_EQ(fixture().Effects().size(), published());
}

TEST_P(ConsumerRetention, WithReceiptsAnEventPublishedAgainAfterTheRetentionIsRefused) {
  const ConsumerOptions options = Options(InboxMode::kRecord);
  ApplyAll(options);
  LetRetentionPass();
  Apply(options);
  Publish();
  const ConsumerStats again = Apply(options);
  EXPECT_EQ(again.received, published());
  EXPECT_EQ(again.effects, 0U);
  EXPECT_EQ(again.too_old, published());
  EXPECT_EQ(fixture().Effects().size(), published());
}

TEST_P(ConsumerRetention, WithReceiptsAReplayWithinTheRetentionIsKnown) {
  const ConsumerOptions options = Options(InboxMode::kRecord);
  ApplyAll(options);
  SetBack();
  const ConsumerStats replay = Apply(options);
  EXPECT_EQ(replay.duplicates, published());
  EXPECT_EQ(replay.effects + replay.dead_total, 0U);
  EXPECT_EQ(fixture().Effects().size(), published());
}

TEST_P(ConsumerRetention, WithoutReceiptsAReplayOfWhatIsForgottenDoesNothing) {
  const ConsumerOptions options = Options(InboxMode::kOffsets);
  ApplyAll(options);
  LetRetentionPass();
  Apply(options);
  // The group at the broker is set back; the position in the store is what counts.
  for (std::int32_t number = 0; number < 2; ++number) topics().SetCommitted("billing", {{kTopic, number}, 0});
  const ConsumerStats replay = Apply(options);
  EXPECT_EQ(replay.effects, 0U);
  EXPECT_EQ(replay.dead_total, 0U);
  EXPECT_EQ(fixture().Effects().size(), published());
}

TEST_P(ConsumerRetention, WithoutReceiptsGuardedVersionsPassOverWhatIsPublishedAgain) {
  ConsumerOptions options = Options(InboxMode::kOffsets);
  options.guard_versions = true;
  ApplyAll(options);
  LetRetentionPass();
  Publish();
  const ConsumerStats again = Apply(options);
  EXPECT_EQ(again.received, published());
  EXPECT_EQ(again.effects, 0U);
  EXPECT_EQ(again.stale + again.duplicates, published());
  EXPECT_GT(again.stale, 0U) << "nothing was forgotten, so nothing was tried";
  EXPECT_EQ(fixture().Effects().size(), published());
}

}  // namespace
}  // namespace sealane::testing
