// Protects the table of what becomes of an event after its delivery is known, and how long it then waits.

#include "relay/judge.hpp"

#include <gtest/gtest.h>

namespace sealane {
namespace {

using std::chrono::milliseconds;
using Kind = Verdict::Kind;

class JudgeTest : public ::testing::Test {
 protected:
  Verdict Of(DeliveryStatus status, FailureClass failure, std::int32_t attempts = 1) {
    return Judge({.token = 1, .status = status, .failure = failure, .code = "c"}, attempts, policy_, random_);
  }
  FailurePolicy policy_;
  SeededRandom random_{1};
};

TEST_F(JudgeTest, PersistedIsDoneWhateverElseIsSaid) {
  for (const auto failure : {FailureClass::kOutage, FailureClass::kRetry, FailureClass::kRejected}) {
    EXPECT_EQ(Of(DeliveryStatus::kPersisted, failure).kind, Kind::kDone);
  }
}

TEST_F(JudgeTest, AnOutageIsNeverTheEventsFault) {
  for (const auto status : {DeliveryStatus::kNotPersisted, DeliveryStatus::kPossiblyPersisted}) {
    EXPECT_EQ(Of(status, FailureClass::kOutage, 1'000'000).kind, Kind::kResend);
    EXPECT_EQ(Of(status, FailureClass::kMisconfigured, 1'000'000).kind, Kind::kResend);
  }
}

TEST_F(JudgeTest, RejectedIsDeadAtOnce) {
  const Verdict verdict = Of(DeliveryStatus::kNotPersisted, FailureClass::kRejected);
  EXPECT_EQ(verdict.kind, Kind::kPark);
  EXPECT_EQ(verdict.state, ParkedState::kDead);
  EXPECT_FALSE(verdict.retry_after.has_value());
}

TEST_F(JudgeTest, RetryWaitsAndIsDeadWhenItsAttemptsAreUsedUp) {
  policy_.retry.attempts_max = 3;
  for (std::int32_t attempts = 1; attempts <= 2; ++attempts) {
    const Verdict verdict = Of(DeliveryStatus::kNotPersisted, FailureClass::kRetry, attempts);
    EXPECT_EQ(verdict.state, ParkedState::kFailed);
    EXPECT_TRUE(verdict.retry_after.has_value());
  }
  EXPECT_EQ(Of(DeliveryStatus::kNotPersisted, FailureClass::kRetry, 3).state, ParkedState::kDead);
}

TEST_F(JudgeTest, ForbiddenIsRetriedWithoutLimit) {
  EXPECT_EQ(Of(DeliveryStatus::kNotPersisted, FailureClass::kForbidden, 100'000).state, ParkedState::kFailed);
}

TEST(RetryPolicy, GrowsToItsLimitAndNeverBeyond) {
  SeededRandom random(7);
  const RetryPolicy policy{
      .first = milliseconds{100}, .factor = 2, .max = milliseconds{1'600}, .jitter = 0, .attempts_max = 0};
  const std::vector<int> expected = {100, 200, 400, 800, 1'600, 1'600};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(policy.DelayAfter(static_cast<std::int32_t>(i) + 1, random), milliseconds{expected[i]});
  }
  EXPECT_EQ(policy.DelayAfter(2'000'000'000, random), milliseconds{1'600});
}

TEST(RetryPolicy, JitterShortensAndIsNeverZero) {
  SeededRandom random(7);
  const RetryPolicy policy{
      .first = milliseconds{1}, .factor = 2, .max = milliseconds{1'000}, .jitter = 1.0, .attempts_max = 0};
  for (std::int32_t attempts = 1; attempts < 2'000; ++attempts) {
    const auto delay = policy.DelayAfter(attempts, random);
    ASSERT_GE(*delay, milliseconds{1});
    ASSERT_LE(*delay, milliseconds{1'000});
  }
}

TEST(RetryPolicy, PresetsAreWhatTheirNamesSay) {
  SeededRandom random(7);
  EXPECT_EQ(RetryPreset("brief")->DelayAfter(1, random), milliseconds{100});
  EXPECT_EQ(RetryPreset("brief")->DelayAfter(4, random), milliseconds{800});
  EXPECT_FALSE(RetryPreset("brief")->DelayAfter(5, random).has_value());
  EXPECT_EQ(RetryPreset("patient")->max, std::chrono::minutes{5});
  EXPECT_EQ(RetryPreset("payments")->max, std::chrono::hours{1});
  EXPECT_FALSE(RetryPreset("hasty").has_value());
}

}  // namespace
}  // namespace sealane
