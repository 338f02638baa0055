#include "base/json_text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "sealane/assert.hpp"

#include "base/text.hpp"

namespace sealane {
namespace {

constexpr std::uint64_t kOnes = 0x0101010101010101U;
constexpr std::uint64_t kHighBits = 0x8080808080808080U;

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

std::size_t LengthByLead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}

std::string EscapedByte(unsigned char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {'\\', 'u', '0', '0', kDigits[c >> 4U], kDigits[c & 15U]};
}

// The JSON form of what stands at the front of a text, and how many bytes of it that covers.
struct Piece {
  std::string json;
  std::size_t taken = 1;
};

Piece NextPiece(std::string_view text, bool valid) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x20 || lead == 0x7f || lead == '"' || lead == '\\') return {EscapedByte(lead), 1};
  if (!valid) return {std::string(kReplacement), 1};
  const std::string_view sequence = text.substr(0, LengthByLead(lead));
  if (sequence == "\xe2\x80\xa8") return {"\\u2028", sequence.size()};
  if (sequence == "\xe2\x80\xa9") return {"\\u2029", sequence.size()};
  return {std::string(sequence), sequence.size()};
}

// Not 0 when some byte of the eight is below `limit`, which is at most 0x80.
constexpr std::uint64_t AnyBelow(std::uint64_t eight, std::uint64_t limit) {
  return (eight - kOnes * limit) & ~eight & kHighBits;
}
constexpr std::uint64_t AnyEqual(std::uint64_t eight, char c) {
  return AnyBelow(eight ^ (kOnes * static_cast<unsigned char>(c)), 1);
}

// Of eight bytes, whether all are printable ASCII and neither quote nor backslash.
constexpr bool ArePlain(std::uint64_t eight) {
  return (AnyBelow(eight, 0x20) | AnyEqual(eight, '"') | AnyEqual(eight, '\\') | AnyEqual(eight, 0x7f) |
          (eight & kHighBits)) == 0;
}

template <class Word>
std::uint64_t Load(const char* from) {
  Word word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// Whether the text stands in JSON as it is: so do nearly all ids, names and times, which is why this looks at eight
// bytes at a time. The last ones are looked at together with some that were seen already.
bool IsPlain(std::string_view text) {
  const char* const data = text.data();
  const std::size_t size = text.size();
  if (size >= 8) {
    for (std::size_t at = 0; at + 8 <= size; at += 8) {
      if (!ArePlain(Load<std::uint64_t>(data + at))) return false;
    }
    return ArePlain(Load<std::uint64_t>(data + size - 8));
  }
  if (size >= 4) {
    return ArePlain(Load<std::uint32_t>(data) | Load<std::uint32_t>(data + size - 4) << 32U);
  }
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
}

}  // namespace

bool AppendJsonString(std::string& out, std::string_view text, std::size_t budget) {
  SEALANE_ASSERT(budget >= 2, "a JSON string has room for its quotes");
  const std::size_t end = out.size() + std::min(budget, out.max_size() - out.size()) - 1;  // the closing quote
  out.push_back('"');
  std::size_t valid_until = FirstInvalidUtf8(text).value_or(text.size());
  bool whole = true;
  for (std::size_t at = 0; at < text.size();) {
    const bool valid = at < valid_until;
    const Piece piece = NextPiece(text.substr(at), valid);
    if (out.size() + piece.json.size() > end) {
      whole = false;
      break;
    }
    out += piece.json;
    at += piece.taken;
    if (!valid) valid_until = at + FirstInvalidUtf8(text.substr(at)).value_or(text.size() - at);
  }
  out.push_back('"');
  return whole;
}

std::string JsonString(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  AppendJsonString(out, text);
  return out;
}

void AppendJsonString(std::string& out, std::string_view text) {
  if (!IsPlain(text)) {
    AppendJsonString(out, text, std::numeric_limits<std::size_t>::max());
    return;
  }
  out.push_back('"');
  out += text;
  out.push_back('"');
}

}  // namespace sealane
