#pragma once

namespace sealane::testing {

/// Whether this build carries a sanitizer. Its shadow and its quarantine are most of such a process's memory, so
/// limits on memory say nothing there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace sealane::testing
