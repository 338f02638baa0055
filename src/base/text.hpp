#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sealane {

/// Where the first byte sequence stands that is not UTF-8; empty when all of it is.
///
/// Strict: no overlong forms, no surrogates, nothing above U+10FFFF. NUL is valid UTF-8 and is not looked for here.
std::optional<std::size_t> FirstInvalidUtf8(std::string_view text);
bool IsUtf8(std::string_view text);

/// The candidate that `word` was probably meant to be ("did you mean ..."), or empty when none is close.
///
/// Close means few edits (insert, remove, replace, swap of neighbours; case does not count) compared with the length
/// of the word. Of equally close candidates the first wins.
std::string_view ClosestMatch(std::string_view word, std::span<const std::string_view> candidates);

/// A connection URL or a libpq `key=value` string with every password replaced by `***`, fit for logs and messages.
///
/// Meant for strings a person configured, broken ones included: when in doubt it hides more, never less.
std::string RedactUrl(std::string_view url);

/// Text from outside, fit to be printed: control characters (ANSI escapes among them), bidirectional overrides and
/// invalid UTF-8 appear as `\n`, `\x1b` or `\u{202e}` and cannot drive a terminal. A backslash stays as it is.
std::string EscapeForTerminal(std::string_view text);

}  // namespace sealane
