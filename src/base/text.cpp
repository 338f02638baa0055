#include "base/text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace sealane {
namespace {

constexpr unsigned Byte(char c) {
  return static_cast<unsigned char>(c);
}
constexpr char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
constexpr bool IsSpace(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
constexpr bool IsWord(char c) {
  return (Lower(c) >= 'a' && Lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

std::size_t SkipAscii(std::string_view text, std::size_t at) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080U;
  for (std::uint64_t eight = 0; at + sizeof eight <= text.size(); at += sizeof eight) {
    std::memcpy(&eight, text.data() + at, sizeof eight);
    if ((eight & kHighBits) != 0) break;
  }
  while (at < text.size() && Byte(text[at]) < 0x80) ++at;
  return at;
}

// The length of the well-formed sequence at `at`, or 0. The range of the second byte depends on the first: that is
// what keeps out overlong forms, surrogates and code points above U+10FFFF.
std::size_t SequenceLength(std::string_view text, std::size_t at) {
  const unsigned first = Byte(text[at]);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() - at < length) return 0;
  const unsigned second_min = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned second_max = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (Byte(text[at + 1]) < second_min || Byte(text[at + 1]) > second_max) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((Byte(text[at + i]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

// Optimal string alignment distance, case ignored, in three rows.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (Lower(a[i - 1]) == Lower(b[j - 1]) ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) && Lower(a[i - 2]) == Lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

bool NamesSecret(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), Lower);
  for (const std::string_view ending : {"password", "passwd", "pwd", "secret", "token"}) {
    if (lower.ends_with(ending)) return true;
  }
  return false;
}

// Whether `name =` stands at `at`: then a value before it has ended.
bool KeyFollows(std::string_view text, std::size_t at) {
  const std::size_t start = at;
  while (at < text.size() && IsWord(text[at])) ++at;
  if (at == start) return false;
  while (at < text.size() && IsSpace(text[at])) ++at;
  return at < text.size() && text[at] == '=';
}

// Where a libpq value ends. An unquoted one with stray spaces is taken to reach up to the next `key=`: the person
// forgot the quotes, and the rest of the password must not show.
std::size_t ConninfoValueEnd(std::string_view text, std::size_t at) {
  if (at < text.size() && text[at] == '\'') {
    for (++at; at < text.size(); ++at) {
      if (text[at] == '\\') {
        ++at;
      } else if (text[at] == '\'') {
        return at + 1;
      }
    }
    return text.size();
  }
  while (at < text.size()) {
    if (text[at] == '\\') {
      at = std::min(at + 2, text.size());
      continue;
    }
    if (IsSpace(text[at])) {
      std::size_t next = at;
      while (next < text.size() && IsSpace(text[next])) ++next;
      if (next == text.size() || KeyFollows(text, next)) return at;
      at = next;
      continue;
    }
    ++at;
  }
  return at;
}

// Replaces the value of every `...password=`. Values end at '&' in a URL, as libpq says in a key=value string.
std::string RedactValues(std::string_view text, bool is_url) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t start = at;
    while (at < text.size() && IsWord(text[at])) ++at;
    const std::string_view name = text.substr(start, at - start);
    std::size_t equals = at;
    while (!is_url && equals < text.size() && IsSpace(text[equals])) ++equals;
    if (equals < text.size() && text[equals] == '=' && NamesSecret(name)) {
      std::size_t value = equals + 1;
      while (!is_url && value < text.size() && IsSpace(text[value])) ++value;
      out += text.substr(start, value - start);
      out += "***";
      at = is_url ? std::min(text.find('&', value), text.size()) : ConninfoValueEnd(text, value);
      continue;
    }
    if (at == start) ++at;
    out += text.substr(start, at - start);
  }
  return out;
}

// Decodes the well-formed sequence at the front.
std::uint32_t CodePoint(std::string_view sequence) {
  if (sequence.size() == 1) return Byte(sequence[0]);
  std::uint32_t code = Byte(sequence[0]) & (0x7fU >> sequence.size());
  for (const char c : sequence.substr(1)) code = code << 6 | (Byte(c) & 0x3f);
  return code;
}

bool DrivesTerminal(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) ||        // C0, DEL and C1 controls
         code == 0x061c || code == 0x200e || code == 0x200f ||  // direction marks
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

std::string Visible(std::uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return code < 0x80 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{{{:x}}}", code);
  }
}

}  // namespace

std::optional<std::size_t> FirstInvalidUtf8(std::string_view text) {
  std::size_t at = SkipAscii(text, 0);
  while (at < text.size()) {
    const std::size_t length = SequenceLength(text, at);
    if (length == 0) return at;
    at += length;
    if (at < text.size() && Byte(text[at]) < 0x80) at = SkipAscii(text, at);
  }
  return std::nullopt;
}

bool IsUtf8(std::string_view text) {
  return !FirstInvalidUtf8(text);
}

std::string_view ClosestMatch(std::string_view word, std::span<const std::string_view> candidates) {
  // Words from outside may be of any length; nothing that long is a typo of a name of ours.
  constexpr std::size_t kWordMax = 128;
  if (word.size() > kWordMax) return {};
  std::string_view best;
  std::size_t best_distance = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    const std::size_t distance = EditDistance(word, candidate);
    if (distance >= longer || distance > std::max<std::size_t>(1, longer / 3)) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string RedactUrl(std::string_view url) {
  if (url.starts_with("sqlite:")) return std::string(url);  // a path; its '@' and ':' are not credentials
  const std::size_t scheme = url.find("://");
  const std::size_t first_value = url.find_first_of("= \t");
  const bool is_conninfo =
      first_value != std::string_view::npos && first_value < scheme && first_value < url.find_first_of(":@");
  if (is_conninfo) return RedactValues(url, false);

  // The password ends at the last '@' of all, although a well-formed URL has it before the first '/': people paste
  // passwords with '/', '?' and '@' in them unescaped, and then the URL is shown in an error message.
  const std::size_t authority = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t colon = url.find(':', authority);
  const std::size_t at = url.rfind('@');
  if (colon == std::string_view::npos || at == std::string_view::npos || at < colon) return RedactValues(url, true);
  return std::string(url.substr(0, colon)) + ":***" + RedactValues(url.substr(at), true);
}

std::string EscapeForTerminal(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = SequenceLength(text, at);
    if (length == 0) {
      out += fmt::format("\\x{:02x}", Byte(text[at]));
      ++at;
      continue;
    }
    const std::string_view sequence = text.substr(at, length);
    const std::uint32_t code = CodePoint(sequence);
    if (DrivesTerminal(code)) {
      out += Visible(code);
    } else {
      out += sequence;
    }
    at += length;
  }
  return out;
}

}  // namespace sealane
