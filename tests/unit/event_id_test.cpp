// Protects identity: ids are exact in their text form and grow strictly within a generator, whatever the clock does.

#include "sealane/event_id.hpp"

#include <algorithm>
#include <thread>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace sealane {
namespace {

using namespace std::chrono_literals;

class EventIdGeneratorTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  SeededRandom random_{1};
  EventIdGenerator generator_{clock_, random_};
};

TEST(EventId, ParsesBothCasesAndWritesLower) {
  const auto id = EventId::Parse("018F4e2a-1b2c-7D3E-8f40-5a6b7c8d9e0f");
  ASSERT_TRUE(id);
  EXPECT_EQ(id->ToString(), "018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f");
}

TEST(EventId, RefusesEverythingElse) {
  for (const auto* text : {"", "018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0", "018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0ff",
                           "018f4e2a1b2c7d3e8f405a6b7c8d9e0f", "{018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e}",
                           "018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0g", "018f4e2a-1b2c-7d3e-8f4-05a6b7c8d9e0f",
                           "018f4e2a_1b2c_7d3e_8f40_5a6b7c8d9e0f", " 18f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f"}) {
    EXPECT_FALSE(EventId::Parse(text)) << text;
  }
}

TEST(EventId, RoundTripsAnyBytes) {
  EXPECT_TRUE(rc::check("text form", [](const std::array<std::uint8_t, 16>& bytes) {
    const EventId id(bytes);
    RC_ASSERT(EventId::Parse(id.ToString()) == id);
  }));
}

TEST(EventId, TextSortsAsIdsDo) {
  EXPECT_TRUE(rc::check("order", [](const EventId::Bytes& a, const EventId::Bytes& b) {
    RC_ASSERT((EventId(a) < EventId(b)) == (EventId(a).ToString() < EventId(b).ToString()));
  }));
}

TEST(EventId, NilIsTheDefault) {
  EXPECT_TRUE(EventId().is_nil());
  EXPECT_EQ(EventId().ToString(), "00000000-0000-0000-0000-000000000000");
  EXPECT_FALSE(EventId().CreatedAt());
}

TEST_F(EventIdGeneratorTest, MakesVersionSevenOfTheRfcVariant) {
  for (int i = 0; i < 1000; ++i) {
    const EventId id = generator_.Next();
    EXPECT_EQ(id.bytes()[6] >> 4, 7);
    EXPECT_EQ(id.bytes()[8] >> 6, 2);
  }
}

TEST_F(EventIdGeneratorTest, CarriesItsCreationTime) {
  const EventId id = generator_.Next();
  EXPECT_EQ(id.CreatedAt(), std::chrono::floor<std::chrono::milliseconds>(clock_.Now()));
}

TEST_F(EventIdGeneratorTest, GrowsOverTenThousandInOneMillisecond) {
  EventId last;
  for (int i = 0; i < 10'000; ++i) {
    const EventId id = generator_.Next();
    ASSERT_LT(last, id) << i;
    last = id;
  }
  EXPECT_LE(*last.CreatedAt(), clock_.Now() + 3ms);  // 4,096 per millisecond: two are borrowed
}

TEST_F(EventIdGeneratorTest, GrowsWhenTheCalendarStepsBack) {
  EventId last = generator_.Next();
  for (int i = 0; i < 1000; ++i) {
    clock_.StepCalendar(i % 3 == 0 ? std::chrono::microseconds{-3600s} : std::chrono::microseconds{700us});
    const EventId id = generator_.Next();
    ASSERT_LT(last, id) << i;
    last = id;
  }
}

TEST_F(EventIdGeneratorTest, GrowsOnEveryThreadAndRepeatsNone) {
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kEach = 5000;
  std::vector<std::vector<EventId>> made(kThreads);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : made) {
      threads.emplace_back([&mine, this] {
        for (std::size_t i = 0; i < kEach; ++i) mine.push_back(generator_.Next());
      });
    }
  }
  std::unordered_set<EventId> all;
  for (const auto& mine : made) {
    EXPECT_EQ(std::adjacent_find(mine.begin(), mine.end(), std::greater_equal<>()), mine.end());
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(all.size(), kThreads * kEach);
}

TEST_F(EventIdGeneratorTest, DiffersFromAnotherGeneratorAtTheSameTime) {
  SeededRandom other_random(2);
  EventIdGenerator other(clock_, other_random);
  EXPECT_NE(generator_.Next(), other.Next());
}

}  // namespace
}  // namespace sealane
