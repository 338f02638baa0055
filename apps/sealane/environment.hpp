#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "sealane/clock.hpp"

namespace sealane::cli {

/// Where a command reads and writes. Data goes to `out`, talk to `err`.
struct Streams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool in_is_terminal = false;
};

/// Everything else a command takes from outside, so that tests can make it up.
struct Environment {
  std::map<std::string, std::string> variables;
  std::vector<std::string> config_candidates = {"./sealane.toml", "/etc/sealane/sealane.toml"};
  Clock* clock = &SystemClock::Instance();
};

/// Those of this process.
Environment ProcessEnvironment();

}  // namespace sealane::cli
