#pragma once

#include <string>

namespace sealane::cli {

/// From now on Ctrl-C writes the line given last to SetInterruptLine() and ends the program with 130.
///
/// Ending at once is safe at any point: an open transaction is rolled back by the store, as after a crash.
void InstallInterruptHandler();

/// What to say on Ctrl-C from here on: what state is left behind.
void SetInterruptLine(std::string line);

}  // namespace sealane::cli
