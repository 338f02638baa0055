// Protects the two text forms of bytes: exact both ways, and one text only for the same bytes.

#include "base/hex.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace sealane {
namespace {

std::span<const std::uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

TEST(Hex, WritesLowerCaseAndReadsBoth) {
  EXPECT_EQ(ToHex(Bytes(std::string("\x00\x7f\xab\xff", 4))), "007fabff");
  EXPECT_EQ(FromHex("007FabFF"), std::string("\x00\x7f\xab\xff", 4));
  EXPECT_EQ(FromHex(""), "");
}

TEST(Hex, RefusesOddLengthAndOtherCharacters) {
  for (const auto* text : {"0", "0g", "g0", " 0", "0x", "00 ", "+1"}) EXPECT_FALSE(FromHex(text)) << text;
}

TEST(Hex, RoundTripsAnyBytes) {
  EXPECT_TRUE(rc::check("hex", [](const std::string& bytes) { RC_ASSERT(FromHex(ToHex(Bytes(bytes))) == bytes); }));
}

// The vectors of RFC 4648, section 10.
TEST(Base64, MatchesTheRfcVectors) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(ToBase64(bytes), text);
    EXPECT_EQ(FromBase64(text), bytes);
  }
}

TEST(Base64, RoundTripsAnyBytes) {
  EXPECT_TRUE(rc::check("base64", [](const std::string& bytes) { RC_ASSERT(FromBase64(ToBase64(bytes)) == bytes); }));
}

TEST(Base64, RefusesWhatIsNotCanonical) {
  for (const auto* text :
       {"Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm 9", "Zm9\n", "Zm9-", "=Zg="}) {
    EXPECT_FALSE(FromBase64(text)) << text;
  }
}

TEST(Base64, AcceptsOneTextPerValue) {
  EXPECT_TRUE(rc::check("one text", [] {
    const auto text = *rc::gen::container<std::string>(4, rc::gen::elementOf(std::string("AQgw/+9z=")));
    const auto bytes = FromBase64(text);
    if (bytes) RC_ASSERT(ToBase64(*bytes) == text);
  }));
}

}  // namespace
}  // namespace sealane
