// Protects what we let into text fields and what we let out to terminals and logs.

#include "base/text.hpp"

#include <array>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

namespace sealane {
namespace {

TEST(Utf8, AcceptsEveryLength) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("plain text that is longer than eight bytes"));
  EXPECT_TRUE(IsUtf8("\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xef\xbf\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"));
  EXPECT_TRUE(IsUtf8(std::string_view("\0", 1)));
  EXPECT_TRUE(IsUtf8("\xed\x9f\xbf\xee\x80\x80"));  // the neighbours of the surrogates
}

TEST(Utf8, RefusesAndNamesThePlace) {
  const std::pair<std::string, std::size_t> broken[] = {
      {"\x80", 0},
      {"abc\xff", 3},
      {"12345678901234567\xc3", 17},
      {"\xc0\xaf", 0},          // overlong
      {"\xc1\xbf", 0},          // overlong
      {"a\xe0\x9f\xbf", 1},     // overlong
      {"\xf0\x8f\xbf\xbf", 0},  // overlong
      {"\xed\xa0\x80", 0},      // surrogate
      {"\xed\xbf\xbf", 0},      // surrogate
      {"\xf4\x90\x80\x80", 0},  // above U+10FFFF
      {"\xf5\x80\x80\x80", 0},  // above U+10FFFF
      {"\xe2\x82", 0},          // cut off
      {"\xe2\x82\x41", 0},      // not a continuation
      {"\xf0\x9f\x9a\x41", 0},  // not a continuation
      {"\xc3\xa4\xc3\xa4"
       "abcdefgh\xc3",
       12},
  };
  for (const auto& [text, at] : broken) EXPECT_EQ(FirstInvalidUtf8(text), at) << testing::PrintToString(text);
}

// Another implementation judges the same bytes: a JSON string of them is accepted exactly when they are UTF-8.
TEST(Utf8, AgreesWithAnotherReader) {
  EXPECT_TRUE(rc::check("utf-8", [] {
    const auto bytes = *rc::gen::container<std::string>(rc::gen::elementOf(
        std::string("az\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xed\xef\xf0\xf4\xf5\xff")));
    RC_ASSERT(IsUtf8(bytes) == nlohmann::json::accept("\"" + bytes + "\""));
  }));
}

TEST(ClosestMatch, FindsTheTypo) {
  constexpr std::array<std::string_view, 5> kNames = {"topic", "payload", "store.url", "relay.batch_max", "key"};
  EXPECT_EQ(ClosestMatch("tpoic", kNames), "topic");
  EXPECT_EQ(ClosestMatch("TOPIC", kNames), "topic");
  EXPECT_EQ(ClosestMatch("payloda", kNames), "payload");
  EXPECT_EQ(ClosestMatch("store.ulr", kNames), "store.url");
  EXPECT_EQ(ClosestMatch("relay.batchmax", kNames), "relay.batch_max");
  EXPECT_EQ(ClosestMatch("kye", kNames), "key");
}

TEST(ClosestMatch, StaysSilentWhenNothingIsClose) {
  constexpr std::array<std::string_view, 2> kNames = {"topic", "key"};
  EXPECT_EQ(ClosestMatch("tenant", kNames), "");
  EXPECT_EQ(ClosestMatch("", kNames), "");
  EXPECT_EQ(ClosestMatch("x", kNames), "");
  EXPECT_EQ(ClosestMatch("topic", {}), "");
  EXPECT_EQ(ClosestMatch(std::string(100'000, 't'), kNames), "");
}

TEST(ClosestMatch, PrefersTheCloserThenTheFirst) {
  constexpr std::array<std::string_view, 3> kNames = {"retries", "retry", "retry2"};
  EXPECT_EQ(ClosestMatch("retri", kNames), "retry");
}

TEST(RedactUrl, HidesThePasswordOfAUrl) {
  EXPECT_EQ(RedactUrl("postgresql://app:s3cret@db:5432/shop"), "postgresql://app:***@db:5432/shop");
  EXPECT_EQ(RedactUrl("postgres://db/shop?user=app&password=s3cret&sslmode=require"),
            "postgres://db/shop?user=app&password=***&sslmode=require");
  EXPECT_EQ(RedactUrl("postgres://app:a@db/shop?sslpassword=s3cret"), "postgres://app:***@db/shop?sslpassword=***");
  EXPECT_EQ(RedactUrl("app:s3cret@db"), "app:***@db");
}

TEST(RedactUrl, LeavesUrlsWithoutPasswordAlone) {
  for (const auto* url :
       {"postgres://db:5432/shop", "postgres://app@db/shop?sslmode=require", "sqlite:/data/a:b@c.db",
        "sqlite::memory:", "host=db user=app dbname=shop", "", "nonsense"}) {
    EXPECT_EQ(RedactUrl(url), url);
  }
}

TEST(RedactUrl, HidesThePasswordOfAConninfo) {
  EXPECT_EQ(RedactUrl("host=db password=s3cret user=app"), "host=db password=*** user=app");
  EXPECT_EQ(RedactUrl("host=db password = 's3 cr\\'et' user=app"), "host=db password = *** user=app");
  EXPECT_EQ(RedactUrl("PASSWORD=s3\\ cret user=app"), "PASSWORD=*** user=app");
  EXPECT_EQ(RedactUrl("password='never closed user=app"), "password=***");
}

TEST(RedactUrl, HidesPasswordsThatNobodyEscaped) {
  for (const auto* url :
       {"postgres://app:s3/cret@db/shop", "postgres://app:s3?cret@db", "postgres://app:s3@cret@db",
        "postgres://app:s3#cret@db", "postgres://app:p@s3/cr@db", "host=db password=my s3 cret user=x",
        "password=s3cret", "postgres://db/x?password=s3#cret"}) {
    const std::string shown = RedactUrl(url);
    EXPECT_EQ(shown.find("s3"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("cr"), std::string::npos) << shown;
  }
}

TEST(RedactUrl, NeverShowsThePassword) {
  EXPECT_TRUE(rc::check("password", [] {
    const auto password =
        "<" + *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab:/@?#=& '\\%"))) + "SECRET>";
    RC_ASSERT(RedactUrl("postgres://app:" + password + "@db/shop").find("SECRET") == std::string::npos);
  }));
}

TEST(EscapeForTerminal, LeavesReadableTextAlone) {
  const std::string text = "Gr\xc3\xbc\xc3\x9f\x65, \xe4\xb8\x96\xe7\x95\x8c \xf0\x9f\x9a\x80 C:\\path \"quoted\"";
  EXPECT_EQ(EscapeForTerminal(text), text);
}

TEST(EscapeForTerminal, ShowsWhatWouldDriveTheTerminal) {
  EXPECT_EQ(EscapeForTerminal("\x1b[2Jgone"), "\\x1b[2Jgone");
  EXPECT_EQ(EscapeForTerminal("a\r\n\tb"), "a\\r\\n\\tb");
  EXPECT_EQ(EscapeForTerminal(std::string_view("\0\x07\x7f", 3)), "\\x00\\x07\\x7f");
  EXPECT_EQ(EscapeForTerminal("\xc2\x9b"
                              "31m"),
            "\\u{9b}31m");  // the 8-bit escape
  EXPECT_EQ(EscapeForTerminal("\xe2\x80\xae"
                              "exe"),
            "\\u{202e}exe");  // right-to-left override
  EXPECT_EQ(EscapeForTerminal("a\xff\xc3"), "a\\xff\\xc3");
}

TEST(EscapeForTerminal, PrintsNoControlBytesWhateverComes) {
  EXPECT_TRUE(rc::check("printable", [](const std::string& text) {
    const std::string shown = EscapeForTerminal(text);
    RC_ASSERT(IsUtf8(shown));
    for (const char c : shown) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }));
}

}  // namespace
}  // namespace sealane
