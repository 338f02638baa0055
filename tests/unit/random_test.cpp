// Protects reproducibility (one seed, one run) and fairness of random choices.

#include "sealane/random.hpp"

#include <array>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace sealane {
namespace {

// Answers with the numbers it was given, to reach the edges of a uniform choice.
class ScriptedRandom final : public Random {
 public:
  explicit ScriptedRandom(std::vector<std::uint64_t> numbers) : numbers_(std::move(numbers)) {}
  void Fill(std::span<std::byte> bytes) override {
    const std::uint64_t number = numbers_.at(next_++);
    std::copy_n(reinterpret_cast<const std::byte*>(&number), bytes.size(), bytes.begin());
  }
  std::size_t asked() const { return next_; }

 private:
  std::vector<std::uint64_t> numbers_;
  std::size_t next_ = 0;
};

TEST(SeededRandom, RepeatsItselfForOneSeed) {
  SeededRandom a(7741);
  SeededRandom b(7741);
  SeededRandom other(7742);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t number = a.NextU64();
    EXPECT_EQ(number, b.NextU64());
    differs |= number != other.NextU64();
  }
  EXPECT_TRUE(differs);
}

// The first numbers of the splitmix64 generator for seed 0: the same on every machine and in every release.
TEST(SeededRandom, MatchesFixedVectors) {
  SeededRandom random(0);
  EXPECT_EQ(random.NextU64(), 0xe220a8397b1dcdafU);
  EXPECT_EQ(random.NextU64(), 0x6e789e6aa1b965f4U);
  EXPECT_EQ(random.NextU64(), 0x06c45d188009454fU);
}

TEST(SystemRandom, FillsRequestsLargerThanItsBuffer) {
  SystemRandom random;
  std::array<std::byte, 2000> bytes{};
  random.Fill(bytes);
  std::set<std::byte> values(bytes.begin(), bytes.end());
  EXPECT_GT(values.size(), 200U);
}

TEST(SystemRandom, DoesNotRepeatNumbers) {
  SystemRandom random;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 10'000; ++i) seen.insert(random.NextU64());
  EXPECT_EQ(seen.size(), 10'000U);
}

TEST(Random, BelowReachesEveryValueAndNoOther) {
  SeededRandom random(1);
  std::array<int, 5> counts{};
  for (int i = 0; i < 10'000; ++i) ++counts.at(random.Below(5));
  for (const int count : counts) EXPECT_NEAR(count, 2000, 300);
  EXPECT_EQ(random.Below(1), 0U);
}

TEST(Random, BelowDrawsAgainFromTheIncompleteLastCopy) {
  ScriptedRandom random({~std::uint64_t{0}, 4});
  EXPECT_EQ(random.Below(3), 1U);
  EXPECT_EQ(random.asked(), 2U);
}

TEST(RandomDeathTest, BelowNothingIsABrokenContract) {
  SeededRandom random(1);
  EXPECT_DEATH(random.Below(0), "at least one possibility");
}

}  // namespace
}  // namespace sealane
