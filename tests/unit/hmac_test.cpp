#include "base/hmac.hpp"

#include <string>

#include <gtest/gtest.h>

#include "base/hex.hpp"

namespace sealane {
namespace {

std::string MacOf(const std::string& key, const std::string& message) {
  return ToHex(HmacSha256(key, message));
}

// The vectors of RFC 4231, those whose output is not cut.
TEST(Hmac, GivesWhatRfc4231Says) {
  EXPECT_EQ(MacOf(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(MacOf("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(MacOf(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(MacOf(*FromHex("0102030405060708090a0b0c0d0e0f10111213141516171819"), std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(MacOf(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(
      MacOf(std::string(131, '\xaa'),
            "This is a test using a larger than block-size key and a larger than block-size data. The key needs "
            "to be hashed before being used by the HMAC algorithm."),
      "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hmac, AKeyOfOneBlockIsNotHashed) {
  EXPECT_NE(MacOf(std::string(64, 'k'), "m"), MacOf(std::string(65, 'k'), "m"));
  // A short key is filled up with zeros: by the definition these two are the same.
  EXPECT_EQ(MacOf("k", "m"), MacOf(std::string("k\0", 2), "m"));
}

TEST(Hmac, ComparesWholeStrings) {
  EXPECT_TRUE(EqualInConstantTime("", ""));
  EXPECT_TRUE(EqualInConstantTime("abc", "abc"));
  EXPECT_FALSE(EqualInConstantTime("abc", "abd"));
  EXPECT_FALSE(EqualInConstantTime("xbc", "abc"));
  EXPECT_FALSE(EqualInConstantTime("abc", "abcd"));
  EXPECT_FALSE(EqualInConstantTime("", "a"));
}

}  // namespace
}  // namespace sealane
