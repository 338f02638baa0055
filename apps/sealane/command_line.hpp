#pragma once

#include <span>
#include <string>

#include "environment.hpp"

namespace sealane::cli {

/// Runs one command line (without the program's name) and returns its exit code. Everything the command sees of the
/// world comes in through the arguments, so that tests can run it in their own process.
int RunCommandLine(std::span<const std::string> arguments, Streams& streams, const Environment& environment);

}  // namespace sealane::cli
