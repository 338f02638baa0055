#include "core/json_scan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane {
namespace {

constexpr bool IsSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
constexpr bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// Bytes that stand for themselves in a string: all but the quote, the backslash and control characters.
constexpr std::array<bool, 256> kPlainInString = [] {
  std::array<bool, 256> plain{};
  for (std::size_t i = 0x20; i < plain.size(); ++i) plain[i] = i != '"' && i != '\\';
  return plain;
}();

Error InvalidJson(std::size_t at, std::string_view what) {
  return Error(ErrorKind::kRejected, "invalid_json", fmt::format("invalid JSON at byte {}: {}", at, what));
}

// Walks over one JSON text without recursion. Each Scan...() starts at the value's first byte and stops behind its
// last; false means that error() tells why not. The error is put into words only when somebody asks for it, because
// every payload on its way out passes here; for the same reason the walk is inlined as a whole, which keeps the
// position in a register and makes it a third faster. `base` is added to positions in messages, so that a slice
// reports where it stands in the whole text.
class Scanner {
 public:
  Scanner(std::string_view text, std::size_t at, std::size_t base)
      : begin_(text.data()), at_(text.data() + at), end_(text.data() + text.size()), base_(base) {}

  bool ScanValue(int depth_max);
  bool ScanString();
  void SkipSpace() {
    while (at_ != end_ && IsSpace(*at_)) ++at_;
  }
  bool Take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  /// Always false.
  bool Expected(std::string_view what) {
    expected_ = what;
    return false;
  }
  Error error() const;
  std::size_t at() const { return static_cast<std::size_t>(at_ - begin_); }

 private:
  enum class Step : std::uint8_t { kFailed, kNextValue, kComplete };

  // kNextValue when an object or array was opened whose first value follows.
  Step BeginValue(std::string& closers, int depth_max);
  // Closes what the value just read completes. kNextValue when another value follows.
  Step EndValue(std::string& closers);
  bool ScanScalar();
  bool ScanWord(std::string_view word, std::string_view quoted);
  bool ScanNumber();
  bool ScanEscape();
  bool ScanName();
  bool TakeDigits();
  char Peek() const { return at_ != end_ ? *at_ : '\0'; }

  const char* const begin_;
  const char* at_;
  const char* const end_;
  const std::size_t base_;
  std::string_view expected_;
  int too_deep_ = 0;  // the depth that was passed, when that is what failed
};

Error Scanner::error() const {
  const std::size_t where = base_ + at();
  if (too_deep_ > 0) return InvalidJson(where, fmt::format("objects and arrays nest deeper than {}", too_deep_));
  const std::string found = at_ != end_ ? fmt::format("found '{}'", EscapeForTerminal({at_, 1})) : "the text ends";
  return InvalidJson(where, fmt::format("expected {}, {}", expected_, found));
}

[[gnu::always_inline]] inline bool Scanner::ScanValue(int depth_max) {
  std::string closers;  // the bracket that ends each open object or array
  while (true) {
    SkipSpace();
    Step step = BeginValue(closers, depth_max);
    if (step == Step::kComplete) step = EndValue(closers);
    if (step != Step::kNextValue) return step == Step::kComplete;
  }
}

[[gnu::always_inline]] inline Scanner::Step Scanner::BeginValue(std::string& closers, int depth_max) {
  const char opener = Peek();
  if (opener != '{' && opener != '[') return ScanScalar() ? Step::kComplete : Step::kFailed;
  if (static_cast<int>(closers.size()) >= depth_max) {
    too_deep_ = depth_max;
    return Step::kFailed;
  }
  ++at_;
  closers.push_back(opener == '{' ? '}' : ']');
  SkipSpace();
  if (Peek() == closers.back()) return Step::kComplete;
  return opener == '[' || ScanName() ? Step::kNextValue : Step::kFailed;
}

[[gnu::always_inline]] inline Scanner::Step Scanner::EndValue(std::string& closers) {
  while (!closers.empty()) {
    SkipSpace();
    if (Take(closers.back())) {
      closers.pop_back();
      continue;
    }
    const bool in_object = closers.back() == '}';
    if (!Take(',')) {
      Expected(in_object ? "',' or '}'" : "',' or ']'");
      return Step::kFailed;
    }
    SkipSpace();
    return !in_object || ScanName() ? Step::kNextValue : Step::kFailed;
  }
  return Step::kComplete;
}

[[gnu::always_inline]] inline bool Scanner::ScanName() {
  if (Peek() != '"') return Expected("a name in double quotes");
  if (!ScanString()) return false;
  SkipSpace();
  return Take(':') || Expected("':'");
}

[[gnu::always_inline]] inline bool Scanner::ScanScalar() {
  switch (Peek()) {
    case '"':
      return ScanString();
    case 't':
      return ScanWord("true", "'true'");
    case 'f':
      return ScanWord("false", "'false'");
    case 'n':
      return ScanWord("null", "'null'");
    default:
      break;
  }
  if (Peek() == '-' || IsDigit(Peek())) return ScanNumber();
  return Expected("a value");
}

[[gnu::always_inline]] inline bool Scanner::ScanWord(std::string_view word, std::string_view quoted) {
  if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).substr(0, word.size()) != word) {
    return Expected(quoted);
  }
  at_ += word.size();
  return true;
}

[[gnu::always_inline]] inline bool Scanner::ScanNumber() {
  Take('-');
  if (!Take('0') && !TakeDigits()) return Expected("a digit");
  if (Take('.') && !TakeDigits()) return Expected("a digit");
  if (Take('e') || Take('E')) {
    if (!Take('+')) Take('-');
    if (!TakeDigits()) return Expected("a digit");
  }
  return true;
}

[[gnu::always_inline]] inline bool Scanner::TakeDigits() {
  const char* const start = at_;
  const char* digit = start;
  while (digit != end_ && IsDigit(*digit)) ++digit;
  at_ = digit;
  return digit != start;
}

[[gnu::always_inline]] inline bool Scanner::ScanString() {
  ++at_;
  while (true) {
    const char* plain = at_;  // stays in a register, unlike a member
    while (plain != end_ && kPlainInString[static_cast<unsigned char>(*plain)]) ++plain;
    at_ = plain;
    if (Take('"')) return true;
    if (!Take('\\')) return Expected("'\"' or a character that is not a control character");
    if (!ScanEscape()) return false;
  }
}

bool Scanner::ScanEscape() {
  constexpr std::string_view kSimple = "\"\\/bfnrt";
  if (Take('u')) {
    for (int i = 0; i < 4; ++i) {
      const char c = Peek();
      if (!IsDigit(c) && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F')) return Expected("a hex digit");
      ++at_;
    }
    return true;
  }
  if (at_ == end_ || kSimple.find(*at_) == std::string_view::npos) {
    return Expected(R"(one of "\/bfnrtu after a backslash)");
  }
  ++at_;
  return true;
}

JsonType TypeByFirstByte(char c) {
  switch (c) {
    case '{':
      return JsonType::kObject;
    case '[':
      return JsonType::kArray;
    case '"':
      return JsonType::kString;
    case 't':
    case 'f':
      return JsonType::kBool;
    case 'n':
      return JsonType::kNull;
    default:
      return JsonType::kNumber;
  }
}

JsonSlice MakeSlice(std::string_view text, std::size_t from, std::size_t to, std::size_t base) {
  return {.bytes = text.substr(from, to - from), .offset = base + from, .type = TypeByFirstByte(text[from])};
}

std::uint32_t HexQuad(std::string_view digits) {
  std::uint32_t value = 0;
  std::from_chars(digits.data(), digits.data() + 4, value, 16);
  return value;
}

void AppendUtf8(std::string& out, std::uint32_t code) {
  const auto push = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xc0 | code >> 6);
    push(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    push(0xe0 | code >> 12);
    push(0x80 | (code >> 6 & 0x3f));
    push(0x80 | (code & 0x3f));
  } else {
    push(0xf0 | code >> 18);
    push(0x80 | (code >> 12 & 0x3f));
    push(0x80 | (code >> 6 & 0x3f));
    push(0x80 | (code & 0x3f));
  }
}

char SimpleEscape(char c) {
  switch (c) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return c;  // quote, backslash, slash
  }
}

// Decodes the \u escape whose 'u' stands at `at`, with its second half if it is a pair. Returns where it ends.
Result<std::size_t> DecodeUnicodeEscape(const JsonSlice& slice, std::size_t at, std::string& out) {
  const std::string_view bytes = slice.bytes;
  std::uint32_t code = HexQuad(bytes.substr(at + 1));
  std::size_t end = at + 5;
  if (code >= 0xd800 && code < 0xe000) {
    const bool pair_follows = code < 0xdc00 && bytes.substr(end, 2) == "\\u";
    const std::uint32_t low = pair_follows ? HexQuad(bytes.substr(end + 2)) : 0;
    if (low < 0xdc00 || low >= 0xe000) {
      return InvalidJson(slice.offset + at - 1, "half of a surrogate pair is not text");
    }
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    end += 6;
  }
  AppendUtf8(out, code);
  return end;
}

}  // namespace

std::string_view ToString(JsonType type) {
  static constexpr std::array<std::string_view, 6> kNames = {"null",   "boolean", "number",
                                                             "string", "array",   "object"};
  return kNames.at(static_cast<std::size_t>(type));
}

Result<JsonSlice> ScanJson(std::string_view text, int depth_max) {
  if (const auto bad = FirstInvalidUtf8(text)) return InvalidJson(*bad, "the text is not UTF-8");
  if (text.starts_with("\xef\xbb\xbf")) return InvalidJson(0, "a byte order mark is not part of JSON");
  Scanner scanner(text, 0, 0);
  scanner.SkipSpace();
  const std::size_t from = scanner.at();
  if (!scanner.ScanValue(depth_max)) return scanner.error();
  const std::size_t to = scanner.at();
  scanner.SkipSpace();
  if (scanner.at() != text.size()) {
    scanner.Expected("the end of the text");
    return scanner.error();
  }
  return MakeSlice(text, from, to, 0);
}

JsonMembers::JsonMembers(const JsonSlice& object) : object_(object) {
  SEALANE_ASSERT(object.type == JsonType::kObject, "only an object has members");
}

Result<std::optional<JsonMember>> JsonMembers::Next() {
  Scanner scanner(object_.bytes, at_, object_.offset);
  scanner.SkipSpace();
  if (scanner.Take('}') || scanner.at() == object_.bytes.size()) return std::optional<JsonMember>{};

  const std::size_t name_from = scanner.at();
  if (!scanner.ScanString()) return scanner.error();
  const JsonSlice name = MakeSlice(object_.bytes, name_from, scanner.at(), object_.offset);
  scanner.SkipSpace();
  scanner.Take(':');
  const std::size_t span_from = scanner.at();
  scanner.SkipSpace();
  const std::size_t value_from = scanner.at();
  if (!scanner.ScanValue(std::numeric_limits<int>::max())) return scanner.error();
  const std::size_t value_to = scanner.at();
  scanner.SkipSpace();
  const std::size_t span_to = scanner.at();
  scanner.Take(',');
  at_ = scanner.at();

  SEALANE_ASSIGN_OR_RETURN(std::string decoded, DecodeJsonString(name));
  return std::optional<JsonMember>(JsonMember{.name = std::move(decoded),
                                              .name_offset = name.offset,
                                              .value = MakeSlice(object_.bytes, value_from, value_to, object_.offset),
                                              .span = object_.bytes.substr(span_from, span_to - span_from)});
}

Result<std::string> DecodeJsonString(const JsonSlice& slice) {
  SEALANE_ASSERT(slice.type == JsonType::kString, "only a string is decoded as one");
  const std::string_view bytes = slice.bytes;
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t at = 1; at + 1 < bytes.size();) {
    const std::size_t plain = std::min(bytes.find('\\', at), bytes.size() - 1);
    out += bytes.substr(at, plain - at);
    at = plain;
    if (at + 1 >= bytes.size()) break;
    ++at;  // the backslash
    if (bytes[at] != 'u') {
      out.push_back(SimpleEscape(bytes[at]));
      ++at;
      continue;
    }
    SEALANE_ASSIGN_OR_RETURN(at, DecodeUnicodeEscape(slice, at, out));
  }
  return out;
}

Result<std::int64_t> DecodeJsonInteger(const JsonSlice& slice) {
  SEALANE_ASSERT(slice.type == JsonType::kNumber, "only a number is decoded as one");
  std::int64_t value = 0;
  const char* const end = slice.bytes.data() + slice.bytes.size();
  const auto [stopped, failure] = std::from_chars(slice.bytes.data(), end, value);
  if (failure == std::errc{} && stopped == end) return value;
  return InvalidJson(slice.offset, failure == std::errc::result_out_of_range ? "the number does not fit into 64 bits"
                                                                             : "expected a whole number");
}

}  // namespace sealane
