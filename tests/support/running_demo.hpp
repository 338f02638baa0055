#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/child_process.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {

/// A scratch folder for demos, and what they leave of themselves.
class DemoPlace {
 public:
  /// For the demo's temporary files; empty when nothing is left.
  std::string temporary() const { return place_.folder(); }
  std::map<std::string, std::string> variables() const { return {{"TMPDIR", temporary()}}; }
  /// Paths below the folder of the demo that runs here, for example `relay.log`, joined; empty when it is not there.
  std::string Find(const std::string& name) const;
  bool IsEmpty() const;
  /// Processes whose command line names something in this place.
  std::vector<int> Processes() const;

  CommandResult Run(std::vector<std::string> arguments) const;

 private:
  SqliteFile place_;
};

}  // namespace sealane::testing
