#include "demo/outage.hpp"

#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.hpp"

namespace sealane::demo {
namespace {

/// Whoever looks for the journal by its path does not find it; nothing can be made in its place, because the folder
/// is gone as a whole.
class FolderMovedAway final : public Outage {
 public:
  explicit FolderMovedAway(std::string folder) : folder_(std::move(folder)), away_(folder_ + ".away") {}
  ~FolderMovedAway() override { static_cast<void>(End()); }

  Status Begin() override { return Move(folder_, away_); }
  Status End() override {
    std::error_code ignored;
    return std::filesystem::exists(away_, ignored) ? Move(away_, folder_) : Ok();
  }

 private:
  static Status Move(const std::string& from, const std::string& to) {
    std::error_code failure;
    std::filesystem::rename(from, to, failure);
    if (!failure) return Ok();
    return Error(ErrorKind::kUnavailable, "outage_failed",
                 fmt::format("{} could not be moved to {}: {}", from, to, failure.message()));
  }

  const std::string folder_;
  const std::string away_;
};

class ByCommands final : public Outage {
 public:
  explicit ByCommands(OutageCommands commands) : commands_(std::move(commands)) {}
  ~ByCommands() override { static_cast<void>(End()); }

  Status Begin() override {
    away_ = true;
    return Run(commands_.away);
  }
  Status End() override {
    if (!away_) return Ok();
    away_ = false;
    return Run(commands_.back);
  }

 private:
  // To its end, also when the demo is being stopped: a broker that was taken away is brought back.
  static Status Run(const std::string& command) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setpgid(0, 0);
      sigset_t none;
      sigemptyset(&none);
      ::sigprocmask(SIG_SETMASK, &none, nullptr);
      ::dup2(STDERR_FILENO, STDOUT_FILENO);  // standard output is the demo's
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    int status = 0;
    if (child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0)
      return Ok();
    return Error(ErrorKind::kUnavailable, "outage_failed", fmt::format("`{}` failed", EscapeForTerminal(command)))
        .WithHint("try it by hand");
  }

  const OutageCommands commands_;
  bool away_ = false;
};

}  // namespace

std::unique_ptr<Outage> Outage::For(const Place& place, const std::optional<OutageCommands>& commands) {
  if (!place.has_kafka()) return std::make_unique<FolderMovedAway>(place.journal_folder());
  if (!commands) return nullptr;
  return std::make_unique<ByCommands>(*commands);
}

}  // namespace sealane::demo
