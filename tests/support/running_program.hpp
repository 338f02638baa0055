#pragma once

#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/child_process.hpp"

namespace sealane::testing {

/// A program that runs beside the test, with what it says, on both outputs, in a file that can be read meanwhile.
class RunningProgram {
 public:
  /// `name` is what its file is called in `folder`; programs of one name write to one file, one after the other.
  RunningProgram(const std::string& name, const std::vector<std::string>& command,
                 std::map<std::string, std::string> variables, const std::string& folder);

  /// What it said since it was started.
  std::string said() const;
  /// Waits until it has said this.
  bool Says(const std::string& text) const;
  /// Waits for the line with this text; the port right after it.
  int PortAfter(const std::string& text) const;

  pid_t pid() const { return process_->pid(); }
  void Signal(int signal) const { process_->Signal(signal); }
  /// Waits for its end; its exit code.
  int Finish() const { return process_->Finish().code; }
  /// kill -9, and waits for its end.
  void Kill() const;
  /// SIGTERM; its exit code.
  int Stop() const;

 private:
  std::string path_;
  std::size_t before_;  // of what others said
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace sealane::testing
