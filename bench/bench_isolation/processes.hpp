#pragma once

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "common/session.hpp"

namespace sealane::bench {

/// Call first in main(), before any thread or child: Ctrl-C, SIGTERM, SIGHUP and Fail() then end all children by
/// their process ids, drop the databases and remove the temporary folder.
void CleanUpAtTheEnd();

/// Made by CleanUpAtTheEnd() and removed with everything in it.
const std::string& TemporaryFolder();
/// Writes a file there; returns its path.
std::string WriteFile(const std::string& name, const std::string& content);

/// The built `sealane`, run with these arguments in the temporary folder. Its output goes to a file there. Ends when
/// it is destroyed, and when this program ends in whatever way. Start it in the main thread.
class Sealane {
 public:
  explicit Sealane(const std::vector<std::string>& arguments);
  ~Sealane() { Stop(); }
  Sealane(const Sealane&) = delete;
  Sealane& operator=(const Sealane&) = delete;

  pid_t pid() const { return pid_; }
  bool Runs();
  /// Waits for its end, kills it at the limit; returns the exit code, or 128 + signal.
  int Wait(std::chrono::seconds limit);
  /// SIGTERM twice, then SIGKILL.
  void Stop();
  /// How many lines of its log hold this text.
  int LogLinesWith(const std::string& text) const;
  /// The end of its log, for an error message.
  std::string LogEnd() const;
  double PeakMib() const;

 private:
  bool AwaitEnd(std::chrono::milliseconds limit);

  std::string log_;
  pid_t pid_ = -1;
  int code_ = -1;
};

/// Runs a command to its end; ends the benchmark when it fails.
void RunSealane(const std::vector<std::string>& arguments);

/// Processor time that a process has used so far; 0 for one that is gone.
double CpuSecondsOf(pid_t pid);

/// What processes, the sealane connections of one database, and the server cost between two moments.
class CostMeter {
 public:
  /// Counts from now on. Asks from another database, so that asking is not counted.
  CostMeter(const Database& database, std::vector<const Sealane*> processes);

  struct Cost {
    double seconds = 0;
    std::vector<double> process_shares;  ///< of one core, in the order given
    double server_share = 0;             ///< of one core: the backends of all sealane connections
    double wal_bytes = 0;                ///< of the whole server
    double transactions = 0;             ///< of the database
    double processes() const;
  };
  Cost Read() const;

 private:
  std::map<pid_t, double> Backends() const;
  double Transactions() const;

  const Session session_;
  const std::string database_;
  const std::vector<const Sealane*> processes_;
  std::chrono::steady_clock::time_point began_;
  std::vector<double> process_cpu_;
  std::map<pid_t, double> backend_cpu_;
  std::string lsn_;
  double transactions_ = 0;
};

/// Waits until the condition holds; false when it does not within the limit.
template <class Condition>
bool WaitFor(std::chrono::seconds limit, const Condition& condition,
             std::chrono::milliseconds pause = std::chrono::milliseconds{50}) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

}  // namespace sealane::bench
