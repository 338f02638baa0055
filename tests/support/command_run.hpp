#pragma once

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "support/child_process.hpp"

namespace sealane::testing {

/// Runs command lines in this process with made-up streams, environment and clock. No configuration file is found
/// unless a test names one. All in the header, because only unit tests link the application.
class CommandRunner {
 public:
  CommandResult Run(const std::vector<std::string>& arguments) const {
    std::istringstream input(in);
    std::ostringstream out;
    std::ostringstream err;
    cli::Streams streams{
        .in = input, .out = out, .err = err, .out_is_terminal = terminal, .err_is_terminal = terminal};
    cli::Environment environment{.variables = variables, .config_candidates = config_candidates};
    if (clock != nullptr) environment.clock = clock;
    CommandResult result;
    result.code = cli::RunCommandLine(arguments, streams, environment);
    result.out = out.str();
    result.err = err.str();
    return result;
  }

  std::map<std::string, std::string> variables;
  std::vector<std::string> config_candidates;
  std::string in;
  Clock* clock = nullptr;  ///< null: the system's
  bool terminal = false;
};

}  // namespace sealane::testing
