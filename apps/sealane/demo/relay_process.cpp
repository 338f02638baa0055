#include "demo/relay_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stop_token>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sealane/clock.hpp"

namespace sealane::demo {
namespace {

constexpr std::chrono::milliseconds kLookAgain{10};

std::string ThisProgram() {
  std::error_code failure;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", failure);
  // A program that was replaced while it runs can still be started by its other name.
  return !failure && std::filesystem::exists(path, failure) ? path.string() : "/proc/self/exe";
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Between fork() and execve(): only what is safe there.
[[noreturn]] void BecomeChild(pid_t parent, const char* program, char* const* arguments, char* const* variables,
                              const char* log) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died before we asked to be told
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  const int words = ::open(log, O_WRONLY | O_APPEND | O_CREAT, 0600);
  if (nothing < 0 || words < 0) ::_exit(127);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(words, STDOUT_FILENO);
  ::dup2(words, STDERR_FILENO);
  ::execve(program, arguments, variables);
  ::_exit(127);
}

}  // namespace

RelayProcess::RelayProcess(std::vector<std::string> arguments, std::map<std::string, std::string> variables,
                           std::string log)
    : arguments_(std::move(arguments)), variables_(std::move(variables)), log_(std::move(log)) {}

RelayProcess::~RelayProcess() {
  Kill();
}

Status RelayProcess::Start() {
  SEALANE_ASSERT(pid_ < 0, "one relay at a time");
  const std::string program = ThisProgram();
  std::vector<std::string> words = arguments_;
  words.insert(words.begin(), "sealane");
  std::vector<std::string> assignments;
  for (const auto& [name, value] : variables_) assignments.push_back(fmt::format("{}={}", name, value));
  const std::vector<char*> arguments = Pointers(words);
  const std::vector<char*> variables = Pointers(assignments);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) BecomeChild(parent, program.c_str(), arguments.data(), variables.data(), log_.c_str());
  if (pid_ > 0) return Ok();
  return Error(ErrorKind::kUnavailable, "out_of_processes",
               fmt::format("the relay could not be started: {}", std::strerror(errno)))
      .WithHint("raise the limit of processes (ulimit -u)");
}

void RelayProcess::Kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void RelayProcess::Stop(std::chrono::milliseconds patience) {
  if (pid_ < 0) return;
  ::kill(pid_, SIGTERM);
  Clock& clock = SystemClock::Instance();
  const BootTime deadline = clock.SinceBoot() + patience;
  while (Runs() && clock.SinceBoot() < deadline) clock.SleepFor(kLookAgain, std::stop_token{});
  Kill();
}

bool RelayProcess::Runs() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

std::string RelayProcess::LastWords() const {
  std::ifstream log(log_);
  std::string line;
  std::string last;
  while (std::getline(log, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace sealane::demo
