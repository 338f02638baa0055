// Protects the report of a broken invariant: what must be true, where, and what happened just before.

#include "sealane/assert.hpp"

#include <gtest/gtest.h>

#include "sealane/result.hpp"

#include "base/log.hpp"

namespace sealane {
namespace {

TEST(AssertDeathTest, SaysWhatMustBeTrueAndWhere) {
  EXPECT_DEATH(SEALANE_ASSERT(1 + 1 == 3, "sums are right"),
               "broken invariant: sums are right \\(1 \\+ 1 == 3\\) at .*assert_test.cpp");
}

TEST(AssertDeathTest, PrintsTheLastLogLines) {
  EXPECT_DEATH(
      {
        LogInfo("lane taken", {{"lane", 7}});
        SEALANE_ASSERT(false, "never");
      },
      "last log lines.*\n.*lane taken lane=7");
}

TEST(AssertDeathTest, StopsReadingTheWrongSideOfAResult) {
  EXPECT_DEATH(
      {
        const Result<int> failed = Error(ErrorKind::kRejected, "no", "no");
        static_cast<void>(failed.value());
      },
      "only after it was checked");
}

TEST(Assert, EvaluatesItsConditionOnceAndGoesOn) {
  int evaluated = 0;
  SEALANE_ASSERT(++evaluated == 1, "once");
  EXPECT_EQ(evaluated, 1);
}

}  // namespace
}  // namespace sealane
