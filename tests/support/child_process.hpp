#pragma once

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace sealane::testing {

/// What a command left behind.
struct CommandResult {
  int code = -1;
  std::string out;
  std::string err;
};

/// A program that runs beside the test, with pipes to its three streams. Destroying it kills it by its pid.
class ChildProcess {
 public:
  /// The child sees these variables only, PATH and sanitizer options apart.
  ChildProcess(const std::vector<std::string>& command, const std::map<std::string, std::string>& variables,
               const std::string& folder);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// Feeds all of `input`, closes it, and reads both outputs to their end. The code is 128 + signal for a killed
  /// child.
  CommandResult Finish(const std::string& input = {});
  void Signal(int signal) const;
  /// Feeds a part of the input and waits until the child has taken it: it has started up and reads.
  void FeedAndAwait(const std::string& input) const;

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
};

/// Runs the built `sealane` to its end.
CommandResult RunSealane(const std::vector<std::string>& arguments, const std::string& input = {},
                         const std::map<std::string, std::string>& variables = {}, const std::string& folder = "/");

}  // namespace sealane::testing
