#pragma once

#include <string>
#include <vector>

#include "demo/evidence.hpp"

namespace sealane::demo {

/// One promise, what was done to break it, and what was counted afterwards.
struct Finding {
  std::string name;     ///< stable: `atomic`, `delivered`, `repeated`, `applied`, `ordered`, `parked`, `fair`
  std::string broken;   ///< what was broken on purpose
  std::string counted;  ///< the figures
  bool holds = true;
  std::vector<std::string> problems = {};  ///< unless it holds: what is wrong, with the first few culprits
};

struct Verdict {
  std::vector<Finding> findings;
  bool holds() const;
};

/// Judges by counting. Pure: the same evidence, the same verdict.
Verdict Judge(const Evidence& evidence);

}  // namespace sealane::demo
