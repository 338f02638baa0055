#pragma once

#include <span>
#include <string_view>

#include "sealane/error.hpp"

namespace sealane::cli {

/// How the program ends. Part of the interface: scripts rely on these (docs/cli.md).
enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kConditionFalse = 3,  ///< a checked condition does not hold (status, doctor)
  kNotFound = 4,
  kSetChanged = 5,    ///< what was planned is not what is there now
  kNotPermitted = 6,  ///< the database or an approval rule says no
  kTimedOut = 7,
  kHeld = 8,  ///< a consumer holds or is paused, and did not apply everything
  kStoreUnreachable = 10,
  kBrokerUnreachable = 11,
  kSchemaMismatch = 12,  ///< the store's schema is newer or older than this program
  kLoginRefused = 13,    ///< wrong user or password
  kStoreReadOnly = 14,
  kStoreFull = 15,       ///< disk full
  kConnectionLost = 16,  ///< lost in the middle of the work; nothing was committed, or the outcome is in doubt
  kSchemaMissing = 17,
  kDatabaseMissing = 18,  ///< the server is there, the database or file is not
  kEventRefused = 65,     ///< the event or request is at fault: too large, malformed, duplicate
  kBadConfiguration = 78,
  kInterrupted = 130,
};

struct ExitCodeText {
  ExitCode code;
  std::string_view meaning;
};
/// All of them with one sentence each, as docs/cli.md and `sealane help exit-codes` show them.
std::span<const ExitCodeText> ExitCodes();

/// The one place that decides how a failure ends the program: by its code where that says more, else by its kind.
ExitCode ExitCodeOf(const Error& error);

}  // namespace sealane::cli
