// Protects the text form of times: exact to the microsecond, strict about what it reads.

#include "base/time_text.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace sealane {
namespace {

using std::chrono::microseconds;

Timestamp At(std::int64_t micros) {
  return Timestamp{microseconds{micros}};
}

TEST(Rfc3339, WritesUtcWithSixDigitsAlways) {
  EXPECT_EQ(ToRfc3339(At(0)), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(ToRfc3339(At(1'714'979'289'123'456)), "2024-05-06T07:08:09.123456Z");
  EXPECT_EQ(ToRfc3339(At(951'782'400'000'001)), "2000-02-29T00:00:00.000001Z");
  EXPECT_EQ(ToRfc3339(kTimestampMax), "9999-12-31T23:59:59.999999Z");
}

TEST(Rfc3339, ShowsTimesOutsideAsTheNearerEnd) {
  EXPECT_EQ(ToRfc3339(At(-1)), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(ToRfc3339(Timestamp::max()), "9999-12-31T23:59:59.999999Z");
  EXPECT_EQ(ToRfc3339(Timestamp::min()), "1970-01-01T00:00:00.000000Z");
}

TEST(Rfc3339, ReadsEveryFormTheRfcPermits) {
  const Timestamp time = At(1'714'979'289'000'000);
  EXPECT_EQ(ParseRfc3339("2024-05-06T07:08:09Z"), time);
  EXPECT_EQ(ParseRfc3339("2024-05-06t07:08:09z"), time);
  EXPECT_EQ(ParseRfc3339("2024-05-06T09:08:09+02:00"), time);
  EXPECT_EQ(ParseRfc3339("2024-05-06T01:38:09-05:30"), time);
  EXPECT_EQ(ParseRfc3339("2024-05-06T07:08:09-00:00"), time);
  EXPECT_EQ(ParseRfc3339("2024-05-06T07:08:09.5Z"), time + microseconds{500'000});
  EXPECT_EQ(ParseRfc3339("2024-05-06T07:08:09.123456999Z"), time + microseconds{123'456});
  EXPECT_EQ(ParseRfc3339("1969-12-31T23:30:00-01:00"), At(1'800'000'000));
}

TEST(Rfc3339, RefusesEverythingElse) {
  for (const auto* text : {"",
                           "2024-05-06",
                           "2024-05-06T07:08:09",
                           "2024-05-06 07:08:09Z",
                           "2024-05-06T07:08Z",
                           "2024-5-6T07:08:09Z",
                           "2024-02-30T00:00:00Z",
                           "2023-02-29T00:00:00Z",
                           "1900-02-29T00:00:00Z",
                           "2024-13-01T00:00:00Z",
                           "2024-00-01T00:00:00Z",
                           "2024-01-00T00:00:00Z",
                           "2024-05-06T24:00:00Z",
                           "2024-05-06T07:60:00Z",
                           "2016-12-31T23:59:60Z",
                           "2024-05-06T07:08:09.Z",
                           "2024-05-06T07:08:09.1234567890Z",
                           "2024-05-06T07:08:09,5Z",
                           "2024-05-06T07:08:09+24:00",
                           "2024-05-06T07:08:09+02:60",
                           "2024-05-06T07:08:09+0200",
                           "2024-05-06T07:08:09+02",
                           "2024-05-06T07:08:09ZZ",
                           "2024-05-06T07:08:09Z ",
                           " 2024-05-06T07:08:09Z",
                           "+2024-05-06T07:08:09Z",
                           "1969-12-31T23:59:59Z",
                           "1970-01-01T00:00:00+00:01",
                           "9999-12-31T23:59:59-00:01",
                           "10000-01-01T00:00:00Z",
                           "2024-05-06T07:08:0xZ",
                           "-024-05-06T07:08:09Z"}) {
    EXPECT_FALSE(ParseRfc3339(text)) << text;
  }
}

TEST(Rfc3339, RoundTripsEveryTime) {
  EXPECT_TRUE(rc::check("round trip", [] {
    const auto micros = *rc::gen::inRange<std::int64_t>(0, kTimestampMax.time_since_epoch().count());
    RC_ASSERT(ParseRfc3339(ToRfc3339(At(micros))) == At(micros));
  }));
}

TEST(Rfc3339, TextSortsAsTimesDo) {
  EXPECT_TRUE(rc::check("order", [] {
    const auto gen = rc::gen::inRange<std::int64_t>(0, kTimestampMax.time_since_epoch().count());
    const auto a = *gen;
    const auto b = *gen;
    RC_ASSERT((a < b) == (ToRfc3339(At(a)) < ToRfc3339(At(b))));
  }));
}

TEST(Rfc3339, SurvivesAnyInput) {
  EXPECT_TRUE(rc::check("hostile", [] {
    const auto text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("0129-:T.Z+")));
    const auto time = ParseRfc3339(text);
    if (time) RC_ASSERT(*time >= kTimestampMin && *time <= kTimestampMax);
  }));
}

}  // namespace
}  // namespace sealane
