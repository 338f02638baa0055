#pragma once

#include <string_view>

namespace sealane {

/// A named step at which a test may let the process die. Costs one load when nothing is armed.
///
/// Armed by the environment variable SEALANE_TEST_CRASH_AT=NAME[:N]: the N-th time (1 by default) a thread comes to
/// the step NAME, the process kills itself with SIGKILL, as if the power had gone.
void CrashPoint(std::string_view name);

}  // namespace sealane
