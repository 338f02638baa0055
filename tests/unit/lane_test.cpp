// Protects the stored format: the lane of a key must be the same in every release and in SQL.
// The expected numbers were computed with another implementation of SHA-256.

#include "core/lane.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace sealane {
namespace {

TEST(Lane, HashMatchesFixedVectors) {
  EXPECT_EQ(LaneHash(""), 58288);
  EXPECT_EQ(LaneHash("o-1"), 23741);
  EXPECT_EQ(LaneHash("42"), 29511);
  EXPECT_EQ(LaneHash("customer/7"), 7391);
  EXPECT_EQ(LaneHash("Gr\xc3\xbc\xc3\x9f\x65"), 63550);  // UTF-8 bytes, not code points
  EXPECT_EQ(LaneHash("\xf0\x9f\x9a\x80"), 60348);
}

TEST(Lane, IsHashModuloLanes) {
  EXPECT_EQ(LaneOf(LaneHash("o-1"), 64), 61);
  EXPECT_EQ(LaneOf(LaneHash("42"), 64), 7);
  EXPECT_EQ(LaneOf(65535, 1), 0);
  EXPECT_EQ(LaneOf(65535, 65536), 65535);
}

TEST(Lane, StaysInRange) {
  EXPECT_TRUE(rc::check("0 <= lane < lanes", [](const std::string& key) {
    const auto lanes = *rc::gen::inRange<std::int32_t>(1, 1025);
    const std::int32_t lane = LaneOf(LaneHash(key), lanes);
    RC_ASSERT(lane >= 0 && lane < lanes);
  }));
}

TEST(Lane, SpreadsNumberedKeysOverAllLanes) {
  std::set<std::int32_t> used;
  for (int i = 0; i < 1000; ++i) used.insert(LaneOf(LaneHash("order-" + std::to_string(i)), 64));
  EXPECT_EQ(used.size(), 64U);
}

}  // namespace
}  // namespace sealane
