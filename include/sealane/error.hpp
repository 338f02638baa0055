#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sealane {

/// What the caller can do about a failure. Each kind asks for one reaction; the details are in the code and message.
enum class ErrorKind : std::uint8_t {
  kUnavailable,    ///< the other side cannot be reached or gave up: back off, do the same work again
  kConflict,       ///< two transactions collided: roll back, retry at once a bounded number of times
  kInDoubt,        ///< it may or may not have happened: look before doing it again
  kFenced,         ///< somebody else owns this work now: drop it
  kRejected,       ///< this event or request is at fault: it will never be accepted as it is
  kMisconfigured,  ///< the set-up is at fault (wrong password, missing schema): hold, alert, change the set-up
  kCorrupt,        ///< stored data contradicts its own checksum or schema: stop and shout
  kCancelled,      ///< a stop was requested: finish quietly
  kMisuse,         ///< the calling code broke a contract of this API: change the program
};

/// `unavailable`, `conflict`, ...: the kind as logs and JSON show it.
std::string_view ToString(ErrorKind kind);

/// A failure as a value: what to do about it (kind), which failure it is (code), and what happened (message).
///
/// `code` is a stable snake_case word that programs and the command line's JSON rely on, for example
/// `payload_too_large`. `hint` says what to do next. `native` is the code of the library below (SQLSTATE, sqlite
/// result code). Context notes are added on the way up, innermost first.
class Error {
 public:
  Error(ErrorKind kind, std::string code, std::string message, const char* file = __builtin_FILE(),
        int line = __builtin_LINE())
      : kind_(kind), code_(std::move(code)), message_(std::move(message)), file_(file), line_(line) {}

  ErrorKind kind() const { return kind_; }
  const std::string& code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }
  const std::string& native() const { return native_; }
  const std::string& field() const { return field_; }
  const std::vector<std::string>& context() const { return context_; }
  const char* file() const { return file_; }
  int line() const { return line_; }

  /// Names what to do next, in one sentence.
  Error&& WithHint(std::string hint) && {
    hint_ = std::move(hint);
    return std::move(*this);
  }
  /// Adds the code of the library below.
  Error&& WithNative(std::string native) && {
    native_ = std::move(native);
    return std::move(*this);
  }
  /// Names the field of the event, request or configuration that is at fault.
  Error&& WithField(std::string field) && {
    field_ = std::move(field);
    return std::move(*this);
  }
  /// Adds where this happened in the caller's words, for example "while appending event 3 of 5".
  Error&& WithContext(std::string note) && {
    context_.push_back(std::move(note));
    return std::move(*this);
  }

  /// One line for people: message, context, native code; the hint follows after ". ".
  std::string ToString() const;

 private:
  ErrorKind kind_;
  std::string code_;
  std::string message_;
  std::string hint_;
  std::string native_;
  std::string field_;
  std::vector<std::string> context_;
  const char* file_;
  int line_;
};

}  // namespace sealane
