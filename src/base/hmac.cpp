#include "base/hmac.hpp"

#include <array>
#include <cstddef>
#include <string>

namespace sealane {
namespace {

constexpr std::size_t kBlock = 64;

std::string_view Bytes(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string Padded(const std::array<std::uint8_t, kBlock>& key, std::uint8_t pad, std::size_t room) {
  std::string text;
  text.reserve(kBlock + room);
  for (const std::uint8_t byte : key) text.push_back(static_cast<char>(byte ^ pad));
  return text;
}

}  // namespace

Sha256Digest HmacSha256(std::string_view key, std::string_view message) {
  Sha256Digest shortened{};
  if (key.size() > kBlock) {
    shortened = Sha256(key);
    key = Bytes(shortened);
  }
  std::array<std::uint8_t, kBlock> block{};
  for (std::size_t i = 0; i < key.size(); ++i) block[i] = static_cast<std::uint8_t>(key[i]);
  std::string inner = Padded(block, 0x36, message.size());
  inner += message;
  const Sha256Digest inner_digest = Sha256(inner);
  std::string outer = Padded(block, 0x5c, inner_digest.size());
  outer += Bytes(inner_digest);
  return Sha256(outer);
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  // Volatile, so that no optimiser finds out that the loop could end at the first difference.
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference |
                                            (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  }
  return difference == 0;
}

}  // namespace sealane
