// Protects the payload hash: standard SHA-256, from any thread.

#include "base/sha256.hpp"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/hex.hpp"

namespace sealane {
namespace {

constexpr std::string_view kOfEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr std::string_view kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256, MatchesTheStandardVectors) {
  EXPECT_EQ(ToHex(Sha256("")), kOfEmpty);
  EXPECT_EQ(ToHex(Sha256("abc")), kOfAbc);
  EXPECT_EQ(ToHex(Sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, SeesNulBytes) {
  EXPECT_NE(Sha256(std::string_view("a\0b", 3)), Sha256("a"));
}

TEST(Sha256, GivesTheSameOnEveryThread) {
  std::vector<std::string> seen(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& result : seen) {
      threads.emplace_back([&result] {
        for (int i = 0; i < 1000; ++i) result = ToHex(Sha256("abc"));
      });
    }
  }
  for (const std::string& result : seen) EXPECT_EQ(result, kOfAbc);
}

}  // namespace
}  // namespace sealane
