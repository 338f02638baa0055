#include "base/hex.hpp"

#include <algorithm>
#include <array>

namespace sealane {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Writes the two digits of a byte; returns where the next ones go.
std::size_t PutHex(std::string& out, std::size_t at, std::uint8_t byte) {
  out[at] = kHexDigits[byte >> 4];
  out[at + 1] = kHexDigits[byte & 15];
  return at + 2;
}

constexpr std::array<std::int8_t, 256> kBase64Values = [] {
  std::array<std::int8_t, 256> values{};
  for (auto& value : values) value = -1;
  for (std::size_t i = 0; i < kBase64Digits.size(); ++i) {
    values[static_cast<unsigned char>(kBase64Digits[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}();

}  // namespace

std::string ToHex(std::span<const std::uint8_t> bytes) {
  std::string text;
  AppendHex(text, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return text;
}

void AppendHex(std::string& out, std::string_view bytes) {
  std::size_t at = out.size();
  out.resize(at + bytes.size() * 2);
  for (const char c : bytes) at = PutHex(out, at, static_cast<unsigned char>(c));
}

void AppendUuid(std::string& out, std::span<const std::uint8_t, 16> bytes) {
  constexpr std::size_t kTextSize = 36;
  std::size_t at = out.size();
  out.resize(at + kTextSize);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out[at++] = '-';
    at = PutHex(out, at, bytes[i]);
  }
}

std::optional<std::string> FromHex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = HexValue(hex[i]);
    const int low = HexValue(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

std::string ToBase64(std::string_view bytes) {
  std::string text;
  AppendBase64(text, bytes);
  return text;
}

void AppendBase64(std::string& out, std::string_view bytes) {
  std::size_t at = out.size();
  out.resize(at + (bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out[at++] = j <= count ? kBase64Digits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
}

std::optional<std::string> FromBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    std::size_t padding = 0;
    if (last && text[i + 3] == '=') padding = text[i + 2] == '=' ? 2 : 1;
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      std::int8_t value = 0;
      if (j < 4 - padding) {
        value = kBase64Values[static_cast<unsigned char>(text[i + j])];
        if (value < 0) return std::nullopt;
      }
      group = group << 6 | static_cast<std::uint32_t>(value);
    }
    // Bits that padding makes meaningless must be zero, or two texts would mean the same bytes.
    if ((padding == 1 && (group & 0xff) != 0) || (padding == 2 && (group & 0xffff) != 0)) return std::nullopt;
    for (std::size_t j = 0; j < 3 - padding; ++j) bytes.push_back(static_cast<char>(group >> (16 - 8 * j) & 0xff));
  }
  return bytes;
}

}  // namespace sealane
