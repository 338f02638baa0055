#include <iostream>
#include <string>
#include <vector>

#include <unistd.h>

#include "command_line.hpp"
#include "interrupt.hpp"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  sealane::cli::InstallInterruptHandler();
  sealane::cli::Streams streams{.in = std::cin,
                                .out = std::cout,
                                .err = std::cerr,
                                .out_is_terminal = ::isatty(STDOUT_FILENO) == 1,
                                .err_is_terminal = ::isatty(STDERR_FILENO) == 1,
                                .in_is_terminal = ::isatty(STDIN_FILENO) == 1};
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return sealane::cli::RunCommandLine(arguments, streams, sealane::cli::ProcessEnvironment());
}
