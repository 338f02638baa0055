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

Error InvalidJson(std::size_t at, std::string_view what) {
  return Error(ErrorKind::kRejected, "invalid_json", fmt::format("invalid JSON at byte {}: {}", at, what));
}

// Walks over one JSON text without recursion. Each Scan...() starts at the value's first byte and stops behind its
// last. `base` is added to positions in messages, so that a slice reports where it stands in the whole text.
class Scanner {
 public:
  Scanner(std::string_view text, std::size_t at, std::size_t base) : text_(text), at_(at), base_(base) {}

  Status ScanValue(int depth_max);
  Status ScanString();
  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
  Error Expected(std::string_view what) const;
  bool Take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::size_t at() const { return at_; }

 private:
  // False when an object or array was opened whose first value follows.
  Result<bool> BeginValue(std::string& closers, int depth_max);
  // Closes what the value just read completes. False when another value follows.
  Result<bool> EndValue(std::string& closers);
  Status ScanScalar();
  Status ScanWord(std::string_view word);
  Status ScanNumber();
  Status ScanEscape();
  Status ScanName();
  bool TakeDigits();
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  std::string_view text_;
  std::size_t at_;
  std::size_t base_;
};

Error Scanner::Expected(std::string_view what) const {
  const std::string found =
      at_ < text_.size() ? fmt::format("found '{}'", EscapeForTerminal(text_.substr(at_, 1))) : "the text ends";
  return InvalidJson(base_ + at_, fmt::format("expected {}, {}", what, found));
}

Status Scanner::ScanValue(int depth_max) {
  std::string closers;  // the bracket that ends each open object or array
  while (true) {
    SkipSpace();
    SEALANE_ASSIGN_OR_RETURN(const bool complete, BeginValue(closers, depth_max));
    if (!complete) continue;
    SEALANE_ASSIGN_OR_RETURN(const bool all_closed, EndValue(closers));
    if (all_closed) return Ok();
  }
}

Result<bool> Scanner::BeginValue(std::string& closers, int depth_max) {
  const char opener = Peek();
  if (opener != '{' && opener != '[') {
    SEALANE_RETURN_IF_ERROR(ScanScalar());
    return true;
  }
  if (static_cast<int>(closers.size()) >= depth_max) {
    return InvalidJson(base_ + at_, fmt::format("objects and arrays nest deeper than {}", depth_max));
  }
  ++at_;
  closers.push_back(opener == '{' ? '}' : ']');
  SkipSpace();
  if (Peek() == closers.back()) return true;
  if (opener == '{') SEALANE_RETURN_IF_ERROR(ScanName());
  return false;
}

Result<bool> Scanner::EndValue(std::string& closers) {
  while (!closers.empty()) {
    SkipSpace();
    if (Take(closers.back())) {
      closers.pop_back();
      continue;
    }
    const bool in_object = closers.back() == '}';
    if (!Take(',')) return Expected(in_object ? "',' or '}'" : "',' or ']'");
    SkipSpace();
    if (in_object) SEALANE_RETURN_IF_ERROR(ScanName());
    return false;
  }
  return true;
}

Status Scanner::ScanName() {
  if (Peek() != '"') return Expected("a name in double quotes");
  SEALANE_RETURN_IF_ERROR(ScanString());
  SkipSpace();
  if (!Take(':')) return Expected("':'");
  return Ok();
}

Status Scanner::ScanScalar() {
  switch (Peek()) {
    case '"':
      return ScanString();
    case 't':
      return ScanWord("true");
    case 'f':
      return ScanWord("false");
    case 'n':
      return ScanWord("null");
    default:
      break;
  }
  if (Peek() == '-' || IsDigit(Peek())) return ScanNumber();
  return Expected("a value");
}

Status Scanner::ScanWord(std::string_view word) {
  if (text_.substr(at_, word.size()) != word) return Expected(fmt::format("'{}'", word));
  at_ += word.size();
  return Ok();
}

Status Scanner::ScanNumber() {
  Take('-');
  if (!Take('0') && !TakeDigits()) return Expected("a digit");
  if (Take('.') && !TakeDigits()) return Expected("a digit");
  if (Take('e') || Take('E')) {
    if (!Take('+')) Take('-');
    if (!TakeDigits()) return Expected("a digit");
  }
  return Ok();
}

bool Scanner::TakeDigits() {
  const std::size_t start = at_;
  while (IsDigit(Peek())) ++at_;
  return at_ > start;
}

Status Scanner::ScanString() {
  ++at_;
  while (true) {
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20) {
      ++at_;
    }
    if (Take('"')) return Ok();
    if (!Take('\\')) return Expected("'\"' or a character that is not a control character");
    SEALANE_RETURN_IF_ERROR(ScanEscape());
  }
}

Status Scanner::ScanEscape() {
  constexpr std::string_view kSimple = "\"\\/bfnrt";
  if (Take('u')) {
    for (int i = 0; i < 4; ++i) {
      const char c = Peek();
      if (!IsDigit(c) && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F')) return Expected("a hex digit");
      ++at_;
    }
    return Ok();
  }
  if (at_ >= text_.size() || kSimple.find(text_[at_]) == std::string_view::npos) {
    return Expected(R"(one of "\/bfnrtu after a backslash)");
  }
  ++at_;
  return Ok();
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
  SEALANE_RETURN_IF_ERROR(scanner.ScanValue(depth_max));
  const std::size_t to = scanner.at();
  scanner.SkipSpace();
  if (scanner.at() != text.size()) return scanner.Expected("the end of the text");
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
  SEALANE_RETURN_IF_ERROR(scanner.ScanString());
  const JsonSlice name = MakeSlice(object_.bytes, name_from, scanner.at(), object_.offset);
  scanner.SkipSpace();
  scanner.Take(':');
  const std::size_t span_from = scanner.at();
  scanner.SkipSpace();
  const std::size_t value_from = scanner.at();
  SEALANE_RETURN_IF_ERROR(scanner.ScanValue(std::numeric_limits<int>::max()));
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
