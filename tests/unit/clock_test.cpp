// Protects the seam of time: sleepers wake by the clock that tests own, and by a stop request.

#include "sealane/clock.hpp"

#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

namespace sealane {
namespace {

using namespace std::chrono_literals;

TEST(ManualClock, MovesOnlyWhenMoved) {
  ManualClock clock;
  const Timestamp start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(1500ms);
  EXPECT_EQ(clock.Now(), start + 1500ms);
  EXPECT_EQ(clock.SinceBoot(), 1500ms);
}

TEST(ManualClock, StepsTheCalendarAlone) {
  ManualClock clock;
  const Timestamp start = clock.Now();
  clock.StepCalendar(-1h);
  EXPECT_EQ(clock.Now(), start - 1h);
  EXPECT_EQ(clock.SinceBoot(), 0ns);
}

TEST(ManualClock, WakesASleeperWhenItsDeadlinePasses) {
  ManualClock clock;
  std::atomic<bool> awake = false;
  std::promise<bool> finished;
  std::jthread sleeper([&](std::stop_token stop) {
    const bool slept = clock.SleepFor(10s, stop);
    awake = true;
    finished.set_value(slept);
  });
  clock.Advance(4s);
  clock.StepCalendar(1h);  // not what sleeping is measured by
  EXPECT_FALSE(awake);
  // The sleeper may start only now, and counts from then: time goes on until it has had its ten seconds.
  std::future<bool> result = finished.get_future();
  while (result.wait_for(1ms) != std::future_status::ready) clock.Advance(10s);
  EXPECT_TRUE(result.get());
}

TEST(ManualClock, WakesASleeperThatIsAskedToStop) {
  ManualClock clock;
  std::promise<bool> finished;
  std::jthread sleeper([&](std::stop_token stop) { finished.set_value(clock.SleepFor(1h, stop)); });
  sleeper.request_stop();
  EXPECT_FALSE(finished.get_future().get());
}

TEST(ManualClock, DoesNotSleepForNothing) {
  ManualClock clock;
  EXPECT_TRUE(clock.SleepFor(0ns, std::stop_token{}));
  EXPECT_TRUE(clock.SleepFor(-1s, std::stop_token{}));
}

TEST(SystemClock, BootTimeNeverGoesBack) {
  SystemClock& clock = SystemClock::Instance();
  BootTime last = clock.SinceBoot();
  for (int i = 0; i < 10'000; ++i) {
    const BootTime now = clock.SinceBoot();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(SystemClock, SleepsAtLeastAsLongAsAsked) {
  SystemClock clock;
  const BootTime start = clock.SinceBoot();
  EXPECT_TRUE(clock.SleepFor(2ms, std::stop_token{}));
  EXPECT_GE(clock.SinceBoot() - start, 2ms);
}

TEST(SystemClock, ReturnsAtOnceWhenStopped) {
  SystemClock clock;
  std::stop_source source;
  source.request_stop();
  EXPECT_FALSE(clock.SleepFor(24h, source.get_token()));
}

}  // namespace
}  // namespace sealane
