#include "interrupt.hpp"

#include <atomic>
#include <csignal>
#include <memory>
#include <mutex>
#include <vector>

#include <unistd.h>

#include "exit_code.hpp"

namespace sealane::cli {
namespace {

std::atomic<const std::string*> current_line{nullptr};

// Only what is safe in a signal handler: one load, one write, one exit.
void OnInterrupt(int) {
  if (const std::string* line = current_line.load()) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line->data(), line->size());
  }
  ::_exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace

void InstallInterruptHandler() {
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
}

void SetInterruptLine(std::string line) {
  // Earlier lines are kept, because the handler may be reading one; there are a handful per command.
  static std::mutex mutex;
  static auto* const lines = new std::vector<std::unique_ptr<const std::string>>();
  const std::lock_guard lock(mutex);
  lines->push_back(std::make_unique<const std::string>(std::move(line)));
  current_line.store(lines->back().get());
}

}  // namespace sealane::cli
