#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "sealane/result.hpp"

namespace sealane::demo {

/// This program once more, as a child that can be killed.
///
/// The kernel ends the child when the thread that started it ends, however that comes about: nothing outlives the
/// demo. So one thread starts it, each time, and lives on. A process group of its own keeps Ctrl-C from it: the demo
/// ends it in its own order.
class RelayProcess {
 public:
  /// What it says goes to the end of `log`.
  RelayProcess(std::vector<std::string> arguments, std::map<std::string, std::string> variables, std::string log);
  /// Kills it.
  ~RelayProcess();
  RelayProcess(const RelayProcess&) = delete;
  RelayProcess& operator=(const RelayProcess&) = delete;

  Status Start();
  /// SIGKILL, and waits for the end.
  void Kill();
  /// SIGTERM, and SIGKILL when it has not ended by then.
  void Stop(std::chrono::milliseconds patience);

  pid_t pid() const { return pid_; }
  /// False when it has ended by itself; then LastWords() tells why.
  bool Runs();
  /// The last line of its log.
  std::string LastWords() const;

 private:
  const std::vector<std::string> arguments_;
  const std::map<std::string, std::string> variables_;
  const std::string log_;
  pid_t pid_ = -1;  // -1: there is none
};

}  // namespace sealane::demo
