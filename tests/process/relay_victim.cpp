// The `sealane` program with the kill switch in front of its system calls.
//   SEALANE_TEST_KILL_CALL=N[+]   dies instead of call number N, with + right after it; 0 only counts
// The number of calls is the last line on standard error.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "process/kill_switch.hpp"

int main(int argc, char** argv) {
  if (const char* text = std::getenv("SEALANE_TEST_KILL_CALL")) {
    const std::string spec(text);
    sealane::testing::ArmKillSwitch(std::atol(text), spec.empty() || spec.back() != '+');
  }
  sealane::cli::Streams streams{.in = std::cin, .out = std::cout, .err = std::cerr};
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const int code = sealane::cli::RunCommandLine(arguments, streams, sealane::cli::ProcessEnvironment());
  std::fprintf(stderr, "%ld\n", sealane::testing::DisarmKillSwitch());
  return code;
}
