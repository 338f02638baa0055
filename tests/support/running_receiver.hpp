#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/http_client.hpp"
#include "support/running_program.hpp"

namespace sealane::testing {

/// A `sealane receive` that runs beside the test, on a free port.
class RunningReceiver : public RunningProgram {
 public:
  /// The secret in the variable HOOK_SECRET is `s` unless told otherwise.
  RunningReceiver(const std::string& folder, const std::vector<std::string>& options,
                  std::map<std::string, std::string> variables = {});

  /// The port after `name` in the line that says where it listens.
  int Port(const std::string& name = "hooks") const;
  /// A delivery that is signed with `s` in the header X-Sig.
  HttpAnswer Post(const std::string& body, const std::string& path = "/hooks/shop") const;
};

}  // namespace sealane::testing
