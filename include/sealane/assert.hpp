#pragma once

namespace sealane::detail {
/// Prints the sentence, the place and the last log lines, then aborts.
[[noreturn]] void AssertionFailed(const char* condition, const char* sentence, const char* file, int line);
}  // namespace sealane::detail

/// Checks an invariant of this program, in release builds too: a crash costs a retry, a wrong write costs an event.
/// `sentence` says what must be true, for the person who reads the crash at night.
#define SEALANE_ASSERT(condition, sentence)            \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::sealane::detail::AssertionFailed(#condition, sentence, __FILE__, __LINE__))
