#include "inbox/sql_script_reader.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"

namespace sealane {
namespace {

// A script runs in the transaction that also records that the event was seen; ending it would part the two.
constexpr std::array<std::string_view, 9> kTransactionWords = {"abort",   "begin",    "commit",    "end",  "prepare",
                                                               "release", "rollback", "savepoint", "start"};
constexpr std::string_view kCopy = "copy";

constexpr bool IsSpace(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
constexpr bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
// Of an identifier; bytes of UTF-8 may stand in it.
constexpr bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
constexpr bool IsWordPart(char c) {
  return IsWordStart(c) || IsDigit(c) || c == '$';
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

bool IsTransactionWord(std::string_view word) {
  return std::find(kTransactionWords.begin(), kTransactionWords.end(), Lower(word)) != kTransactionWords.end();
}

}  // namespace

std::size_t LineAt(std::string_view text, std::size_t offset) {
  return 1 +
         static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

std::size_t ColumnAt(std::string_view text, std::size_t offset) {
  const std::size_t newline = text.substr(0, offset).rfind('\n');
  const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  const std::string_view before = text.substr(begin, offset - begin);
  return 1 + static_cast<std::size_t>(std::count_if(before.begin(), before.end(), [](char c) {
           return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
         }));
}

Error SqlScriptReader::Refused(std::string code, std::size_t offset, std::string_view what) const {
  return Error(ErrorKind::kRejected, std::move(code),
               fmt::format("script line {}, column {}: {}", LineAt(text_, offset), ColumnAt(text_, offset), what));
}

Result<std::vector<SqlScript::Statement>> SqlScriptReader::Read() {
  SEALANE_RETURN_IF_ERROR(CheckText());
  while (at_ < text_.size()) SEALANE_RETURN_IF_ERROR(ReadPiece());
  EndStatement();
  if (statements_.empty()) return Refused("script_empty", 0, "there is no statement in it");
  return std::move(statements_);
}

Status SqlScriptReader::CheckText() const {
  if (const auto bad = FirstInvalidUtf8(text_)) return Refused("invalid_utf8", *bad, "this is not UTF-8");
  if (const auto nul = text_.find('\0'); nul != std::string_view::npos) {
    return Refused("nul_in_text", nul, "a script has no NUL");
  }
  return Ok();
}

Status SqlScriptReader::ReadPiece() {
  if (IsSpace(text_[at_])) {
    if (current_.text.empty()) {
      ++at_;
    } else {
      Copy(1);
    }
    return Ok();
  }
  if (At("--")) {
    ReadLineComment();
    return Ok();
  }
  if (At("/*")) return ReadBlockComment();
  if (text_[at_] == ';') {
    EndStatement();
    ++at_;
    return Ok();
  }
  if (!begun_) SEALANE_RETURN_IF_ERROR(BeginStatement());
  return ReadToken();
}

Status SqlScriptReader::BeginStatement() {
  begun_ = true;
  current_.line = LineAt(text_, at_);
  current_.origins.emplace_back(current_.text.size(), at_);
  std::size_t size = 0;
  while (IsWordPart(Ahead(size))) ++size;
  const std::string_view word = text_.substr(at_, size);
  if (style_ == Placeholder::kDollar && Lower(word) == kCopy) {
    return Refused("copy_in_script", at_, "COPY has rows come from or go to a client, and a script has none")
        .WithHint("write INSERT ... SELECT");
  }
  if (!IsTransactionWord(word)) return Ok();
  return Refused("transaction_in_script", at_,
                 fmt::format("{} would take the transaction apart that the script runs in", word))
      .WithHint("leave it out: the whole script commits together with the record that the event was seen");
}

Status SqlScriptReader::ReadToken() {
  const char c = text_[at_];
  if (IsWordStart(c)) return ReadWord();
  if (IsDigit(c)) {
    // With what sticks to it, so that the letter of 1e5 does not begin a word.
    std::size_t size = 1;
    while (IsWordPart(Ahead(size)) || Ahead(size) == '.') ++size;
    Copy(size);
    return Ok();
  }
  if (c == '\'') return ReadQuoted('\'', '\'', false, "string");
  if (c == '"') return ReadQuoted('"', '"', false, "quoted identifier");
  if (c == ':') return ReadColon();
  if (style_ == Placeholder::kDollar) {
    if (c == '$') return ReadDollar();
    if (c == '[') ++brackets_;
    if (c == ']' && brackets_ > 0) --brackets_;
  } else {
    if (c == '`') return ReadQuoted('`', '`', false, "quoted identifier");
    if (c == '[') return ReadQuoted('[', ']', false, "quoted identifier");
    if (c == '?' || c == '@' || c == '$') {
      return Refused("numbered_parameter", at_, fmt::format("nothing would give {} a value", c))
          .WithHint("name what you need of the event, for example :key");
    }
  }
  Copy(1);
  return Ok();
}

Status SqlScriptReader::ReadWord() {
  std::size_t size = 1;
  while (IsWordPart(Ahead(size))) ++size;
  const bool escapes =
      style_ == Placeholder::kDollar && size == 1 && (text_[at_] == 'e' || text_[at_] == 'E') && Ahead(1) == '\'';
  Copy(size);
  return escapes ? ReadQuoted('\'', '\'', true, "string") : Ok();
}

// Inside brackets a colon directly behind an operand parts the two ends of an array slice.
bool SqlScriptReader::BehindOperand() const {
  if (brackets_ == 0 || at_ == 0) return false;
  const char before = text_[at_ - 1];
  return IsWordPart(before) || before == ')' || before == ']' || before == '\'' || before == '"';
}

Status SqlScriptReader::ReadColon() {
  if (Ahead(1) == ':' || Ahead(1) == '=') {
    Copy(2);
    return Ok();
  }
  if (style_ == Placeholder::kQuestion && IsDigit(Ahead(1))) {
    return Refused("numbered_parameter", at_, fmt::format("nothing would give :{} a value", Ahead(1)))
        .WithHint("name what you need of the event, for example :key");
  }
  if (!IsWordStart(Ahead(1)) || BehindOperand()) {
    Copy(1);
    return Ok();
  }
  std::size_t size = 1;
  while (IsWordStart(Ahead(size)) || IsDigit(Ahead(size))) ++size;
  const std::string_view name = text_.substr(at_ + 1, size - 1);
  const auto parameter = ParseSqlParameter(name);
  if (!parameter) {
    const std::string_view meant = ClosestMatch(name, SqlParameterNames());
    return Refused("unknown_parameter", at_, fmt::format("there is no parameter :{}", EscapeForTerminal(name)))
        .WithField(std::string(name))
        .WithHint(meant.empty() ? fmt::format("choose one of {}", fmt::join(SqlParameterNames(), ", "))
                                : fmt::format("did you mean `:{}`?", meant));
  }
  current_.parameters.push_back(*parameter);
  // A dollar sign would become a part of a word before it.
  if (style_ == Placeholder::kDollar && !current_.text.empty() && IsWordPart(current_.text.back())) {
    current_.text += ' ';
  }
  current_.origins.emplace_back(current_.text.size(), at_);
  current_.text += fmt::format("{}{}", style_ == Placeholder::kDollar ? '$' : '?', current_.parameters.size());
  at_ += size;
  current_.origins.emplace_back(current_.text.size(), at_);
  return Ok();
}

Status SqlScriptReader::ReadDollar() {
  if (IsDigit(Ahead(1))) {
    return Refused("numbered_parameter", at_, fmt::format("nothing would give ${} a value", Ahead(1)))
        .WithHint("name what you need of the event, for example :key");
  }
  std::size_t size = 1;
  if (IsWordStart(Ahead(size))) {
    while (IsWordStart(Ahead(size)) || IsDigit(Ahead(size))) ++size;
  }
  if (Ahead(size) != '$') {
    Copy(1);
    return Ok();
  }
  const std::string_view tag = text_.substr(at_, size + 1);
  const std::size_t end = text_.find(tag, at_ + tag.size());
  if (end == std::string_view::npos) {
    return Refused("script_unterminated", at_, fmt::format("the text that begins with {} does not end", tag));
  }
  Copy(end + tag.size() - at_);
  return Ok();
}

Status SqlScriptReader::ReadQuoted(char quote, char closing, bool backslashes, std::string_view what) {
  const std::size_t begin = at_;
  for (std::size_t end = at_ + 1; end < text_.size(); ++end) {
    if (backslashes && text_[end] == '\\') {
      ++end;
    } else if (text_[end] == closing) {
      // A doubled quote inside reads as the end and a new beginning, which comes to the same; with backslashes the
      // new beginning must know of them.
      if (backslashes && end + 1 < text_.size() && text_[end + 1] == quote) {
        ++end;
        continue;
      }
      if (const std::size_t next = backslashes ? ContinuationOf(end + 1) : 0; next > 0) {
        end = next;
        continue;
      }
      Copy(end + 1 - at_);
      return Ok();
    }
  }
  return Refused("script_unterminated", begin, fmt::format("the {} that begins here does not end", what));
}

// Strings with a line break between them are one string, and the second is read like the first. Where its quote
// stands; zero when there is none.
std::size_t SqlScriptReader::ContinuationOf(std::size_t end) const {
  bool line_break = false;
  for (; end < text_.size() && IsSpace(text_[end]); ++end) line_break |= text_[end] == '\n';
  return line_break && end < text_.size() && text_[end] == '\'' ? end : 0;
}

void SqlScriptReader::ReadLineComment() {
  const std::size_t newline = text_.find('\n', at_);
  Copy((newline == std::string_view::npos ? text_.size() : newline) - at_);
}

Status SqlScriptReader::ReadBlockComment() {
  const bool nested = style_ == Placeholder::kDollar;
  int depth = 1;
  for (std::size_t end = at_ + 2; end + 1 < text_.size();) {
    const std::string_view two = text_.substr(end, 2);
    const bool opens = nested && two == "/*";
    const bool closes = two == "*/";
    end += opens || closes ? 2 : 1;
    depth += opens ? 1 : 0;
    depth -= closes ? 1 : 0;
    if (depth == 0) {
      Copy(end - at_);
      return Ok();
    }
  }
  return Refused("script_unterminated", at_, "the comment that begins here does not end");
}

// Comments alone are no statement; what stands before the next one is dropped with them.
void SqlScriptReader::EndStatement() {
  while (!current_.text.empty() && IsSpace(current_.text.back())) current_.text.pop_back();
  if (begun_) statements_.push_back(std::move(current_));
  current_ = {};
  begun_ = false;
  brackets_ = 0;
}

void SqlScriptReader::Copy(std::size_t count) {
  current_.text += text_.substr(at_, count);
  at_ += count;
}

std::string_view FirstWordOf(std::string_view statement) {
  std::size_t at = 0;
  int depth = 0;  // of comments, which may stand in each other
  while (at < statement.size()) {
    const std::string_view rest = statement.substr(at);
    if (rest.starts_with("/*")) {
      ++depth;
      at += 2;
    } else if (depth > 0 && rest.starts_with("*/")) {
      --depth;
      at += 2;
    } else if (depth > 0 || IsSpace(rest.front()) || rest.front() == ';') {
      ++at;
    } else if (rest.starts_with("--")) {
      at += std::min(rest.size(), rest.find('\n'));
    } else {
      break;
    }
  }
  std::size_t end = at;
  while (end < statement.size() && IsWordPart(statement[end])) ++end;
  return statement.substr(at, end - at);
}

bool EndsTransaction(std::string_view statement) {
  return IsTransactionWord(FirstWordOf(statement));
}

bool IsCopy(std::string_view statement) {
  return Lower(FirstWordOf(statement)) == kCopy;
}

}  // namespace sealane
