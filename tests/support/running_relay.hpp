#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/child_process.hpp"

namespace sealane::testing {

/// A whole answer of a server on this machine, status line and headers included; empty when there is none.
std::string HttpGet(int port, const std::string& target);

/// A relay that runs beside the test, with its log in a file so that it can be read while it runs.
class RunningRelay {
 public:
  RunningRelay(const std::string& folder, const std::vector<std::string>& options,
               std::map<std::string, std::string> variables = {});

  std::string log() const;
  /// Waits until the log has this text.
  bool Says(const std::string& text) const;
  /// The first line of the log that has all of these texts, or empty.
  std::string LineWith(const std::vector<std::string>& texts) const;
  /// The port of its probes, which it says at the start.
  int port() const;

  std::string Get(const std::string& target) const { return HttpGet(port(), target); }
  /// What /readyz says about one pair of a store and a route; an empty object while that is nothing.
  nlohmann::json Readiness(const std::string& store, const std::string& route) const;
  /// The value of a metric, by its name with labels as they are written; empty when it is not there.
  std::string Metric(const std::string& name_and_labels) const;

  void Signal(int signal) const { process_->Signal(signal); }
  CommandResult Finish() const { return process_->Finish(); }
  /// Ends it as a service manager does.
  CommandResult Stop() const;

 private:
  std::string log_path_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace sealane::testing
