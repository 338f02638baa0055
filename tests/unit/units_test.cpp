// Protects the spelling of durations and sizes in configuration and flags.

#include "config/units.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace sealane::cli {
namespace {

using namespace std::chrono_literals;

TEST(Duration, IsReadWithItsUnit) {
  EXPECT_EQ(*ParseDuration("100ms"), 100ms);
  EXPECT_EQ(*ParseDuration("5s"), 5s);
  EXPECT_EQ(*ParseDuration("2m"), 2min);
  EXPECT_EQ(*ParseDuration("1h"), 1h);
  EXPECT_EQ(*ParseDuration("1d"), 24h);
  EXPECT_EQ(*ParseDuration("0"), 0ms);
}

TEST(Duration, WithoutUnitIsRefusedWithAHint) {
  const auto duration = ParseDuration("5");
  ASSERT_FALSE(duration);
  EXPECT_EQ(duration.error().code(), "bad_unit");
  EXPECT_NE(duration.error().hint().find("\"5s\""), std::string::npos);
}

TEST(Duration, RefusesEverythingElse) {
  for (const char* text : {"", "s", "5 s", " 5s", "5s ", "-5s", "+5s", "5S", "5sec", "1.5s", "1h30m", "0x5s", "5KiB",
                           "99999999999999999999s", "36501d", "9223372036854775807ms", "five"}) {
    const auto duration = ParseDuration(text);
    ASSERT_FALSE(duration) << text;
    EXPECT_FALSE(duration.error().hint().empty()) << text;
  }
}

TEST(Size, IsReadWithItsUnit) {
  EXPECT_EQ(*ParseSize("500B"), 500U);
  EXPECT_EQ(*ParseSize("900KiB"), 900U * 1024);
  EXPECT_EQ(*ParseSize("64MiB"), 64U << 20U);
  EXPECT_EQ(*ParseSize("2GiB"), 2ULL << 30U);
  EXPECT_EQ(*ParseSize("1KB"), 1000U);
  EXPECT_EQ(*ParseSize("1MB"), 1'000'000U);
  EXPECT_EQ(*ParseSize("1GB"), 1'000'000'000U);
  EXPECT_EQ(*ParseSize("0"), 0U);
}

TEST(Size, RefusesEverythingElse) {
  for (const char* text : {"", "5", "KiB", "5 KiB", "5kib", "5s", "-1B", "1.5MiB", "9223372036854775808B",
                           "9007199254740993GiB", "99999999999999999999B"}) {
    EXPECT_FALSE(ParseSize(text)) << text;
  }
}

TEST(Units, AreWrittenAsTheyAreRead) {
  EXPECT_EQ(FormatDuration(5min), "5m");
  EXPECT_EQ(FormatDuration(90s), "90s");
  EXPECT_EQ(FormatDuration(0ms), "0");
  EXPECT_EQ(FormatSize(900U << 10U), "900KiB");
  EXPECT_EQ(FormatSize(1'000'000), "1MB");
  EXPECT_EQ(FormatSize(1'000'001), "1000001B");
  EXPECT_TRUE(rc::check("round trip", [](std::uint32_t number) {
    RC_ASSERT(*ParseDuration(FormatDuration(std::chrono::milliseconds(number))) == std::chrono::milliseconds(number));
    RC_ASSERT(*ParseSize(FormatSize(number)) == number);
  }));
}

}  // namespace
}  // namespace sealane::cli
