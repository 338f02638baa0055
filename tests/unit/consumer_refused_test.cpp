// Protects the broker and the log from a consumer that is refused: it asks less and less often and says so rarely.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/consumer_bench.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// A consumer whose broker lets it in and refuses it a moment later, as a Kafka does with a topic that is forbidden.
class RefusedConsumer : public ::testing::Test {
 protected:
  void SetUp() override {
    consumer_ = std::make_unique<Consumer>(
        bench_.Options(), bench_.Noting(), ReadJsonEnvelope,
        [this] {
          return memory::OpenInboxStore(bench_.database(), ConsumerBench::kGroup, InboxMode::kRecord, bench_.clock(),
                                        bench_.faults());
        },
        [this]() -> Result<std::unique_ptr<Subscription>> {
          ++opened_;
          return bench_.topics().Join(ConsumerBench::kGroup, {ConsumerBench::kTopic});
        },
        bench_.clock(), random_);
  }
  /// Every second step is refused, as long as there is a subscription.
  void BeRefusedFor(milliseconds duration) {
    for (milliseconds passed{0}; passed < duration; passed += kStep) {
      const std::size_t before = opened_;
      ASSERT_TRUE(consumer_->RunOnce());
      if (opened_ > before) {
        bench_.topics().Fail(MemoryTopics::Call::kPoll, Error(ErrorKind::kMisconfigured, "topic_forbidden", "no"));
        ASSERT_TRUE(consumer_->RunOnce());
      }
      bench_.clock().Advance(kStep);
    }
  }

  static constexpr milliseconds kStep{50};
  ConsumerBench bench_;
  SeededRandom random_{1};
  std::size_t opened_ = 0;
  std::unique_ptr<Consumer> consumer_;
};

TEST_F(RefusedConsumer, AsksLessAndLessOften) {
  BeRefusedFor(minutes{1});
  EXPECT_GE(opened_, 6U);
  EXPECT_LE(opened_, 15U);
}

TEST_F(RefusedConsumer, LogsTheFirstOfASeriesAndThenAtGrowingDistances) {
  const auto lines = [this](milliseconds duration) {
    ::testing::internal::CaptureStderr();
    BeRefusedFor(duration);
    const std::string log = ::testing::internal::GetCapturedStderr();
    std::size_t count = 0;
    for (std::size_t at = log.find("topic_forbidden"); at != std::string::npos;
         at = log.find("topic_forbidden", at)) {
      ++count;
      at = log.find('\n', at);
    }
    return count;
  };
  EXPECT_EQ(lines(milliseconds{100}), 1U);
  EXPECT_LE(lines(minutes{10}), 12U);
  const std::size_t later = lines(minutes{10});
  EXPECT_GE(later, 1U) << "it is not forgotten";
  EXPECT_LE(later, 4U);
}

TEST_F(RefusedConsumer, IsPatientAnewAfterALongTimeThatWentWell) {
  BeRefusedFor(minutes{1});
  bench_.clock().Advance(seconds{10});
  bench_.SettleOver(*consumer_, minutes{1}, seconds{1});
  const std::size_t before = opened_;
  bench_.topics().Fail(MemoryTopics::Call::kPoll, Error(ErrorKind::kMisconfigured, "topic_forbidden", "no"));
  ASSERT_TRUE(consumer_->RunOnce());
  bench_.clock().Advance(milliseconds{250});
  ASSERT_TRUE(consumer_->RunOnce());
  EXPECT_EQ(opened_, before + 1) << "the first attempt of a new series comes soon";
}

}  // namespace
}  // namespace sealane::testing
