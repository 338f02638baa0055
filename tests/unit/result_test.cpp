// Protects how failures travel: values and errors keep what they carry, and nobody reads the wrong side unnoticed.

#include "sealane/result.hpp"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace sealane {
namespace {

Error Refusal() {
  return Error(ErrorKind::kRejected, "too_big", "the box is full");
}

Result<int> Half(int number) {
  if (number % 2 != 0) return Refusal();
  return number / 2;
}

Result<int> Quarter(int number) {
  SEALANE_ASSIGN_OR_RETURN(const int half, Half(number));
  return Half(half);
}

Status Check(int number) {
  SEALANE_RETURN_IF_ERROR(Half(number));
  return Ok();
}

TEST(Result, HoldsAValue) {
  const Result<int> result = Half(8);
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, 4);
  EXPECT_EQ(result.value_or(7), 4);
}

TEST(Result, HoldsAnError) {
  const Result<int> result = Half(7);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), "too_big");
  EXPECT_EQ(result.value_or(7), 7);
}

TEST(Result, MacrosPassValuesOnAndLeaveWithErrors) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_FALSE(Quarter(6));
  EXPECT_FALSE(Quarter(5));
  EXPECT_TRUE(Check(2));
  EXPECT_EQ(Check(1).error().code(), "too_big");
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 5);
}

TEST(Result, ThrowsForCallersWhoAskForIt) {
  EXPECT_EQ(ValueOrThrow(Half(4)), 2);
  try {
    ValueOrThrow(Half(3));
    FAIL() << "an error was taken for a value";
  } catch (const SealaneException& exception) {
    EXPECT_EQ(exception.error().code(), "too_big");
    EXPECT_STREQ(exception.what(), "the box is full");
  }
}

TEST(ResultDeathTest, AbortsWhenTheWrongSideIsRead) {
  EXPECT_DEATH(static_cast<void>(*Half(3)), "read as a value only after it was checked");
  EXPECT_DEATH(static_cast<void>(Half(4).error()), "read as an error only after it was checked");
}

TEST(Error, TellsPeopleTheWholeStory) {
  const Error error = Refusal()
                          .WithNative("53100")
                          .WithHint("make room")
                          .WithField("payload")
                          .WithContext("while appending event 3 of 5");
  EXPECT_EQ(error.ToString(), "the box is full, while appending event 3 of 5 [53100]. make room");
  EXPECT_EQ(error.field(), "payload");
  EXPECT_EQ(error.kind(), ErrorKind::kRejected);
}

TEST(Error, RemembersWhereItWasMade) {
  EXPECT_NE(std::string(Refusal().file()).find("result_test.cpp"), std::string::npos);
  EXPECT_GT(Refusal().line(), 0);
}

TEST(Error, NamesEveryKind) {
  EXPECT_EQ(ToString(ErrorKind::kUnavailable), "unavailable");
  EXPECT_EQ(ToString(ErrorKind::kConflict), "conflict");
  EXPECT_EQ(ToString(ErrorKind::kInDoubt), "in_doubt");
  EXPECT_EQ(ToString(ErrorKind::kFenced), "fenced");
  EXPECT_EQ(ToString(ErrorKind::kRejected), "rejected");
  EXPECT_EQ(ToString(ErrorKind::kMisconfigured), "misconfigured");
  EXPECT_EQ(ToString(ErrorKind::kCorrupt), "corrupt");
  EXPECT_EQ(ToString(ErrorKind::kCancelled), "cancelled");
  EXPECT_EQ(ToString(ErrorKind::kMisuse), "misuse");
}

}  // namespace
}  // namespace sealane
