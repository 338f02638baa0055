#include "support/child_process.hpp"

#include <csignal>
#include <cstdlib>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sealane::testing {
namespace {

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::abort();
}

void CloseIfOpen(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Assignments(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> assignments;
  for (const auto& [name, value] : variables) assignments.push_back(fmt::format("{}={}", name, value));
  for (const char* inherited : {"PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"}) {
    const char* const value = std::getenv(inherited);
    if (value != nullptr) assignments.push_back(fmt::format("{}={}", inherited, value));
  }
  return assignments;
}

// Appends what is there; false at the end of the stream.
bool Drain(int descriptor, std::string& text) {
  char block[4096];
  const ssize_t count = ::read(descriptor, block, sizeof block);
  if (count > 0) text.append(block, static_cast<std::size_t>(count));
  return count > 0;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command,
                           const std::map<std::string, std::string>& variables, const std::string& folder) {
  std::signal(SIGPIPE, SIG_IGN);  // a child that ends before it has read everything is not our end
  int pipes[3][2];
  for (auto& ends : pipes) {
    if (::pipe2(ends, O_CLOEXEC) != 0) Fail("pipe2");
  }
  std::vector<std::string> words = command;
  std::vector<std::string> assignments = Assignments(variables);
  const std::vector<char*> arguments = Pointers(words);
  const std::vector<char*> environment = Pointers(assignments);
  pid_ = ::fork();
  if (pid_ < 0) Fail("fork");
  if (pid_ == 0) {
    std::signal(SIGPIPE, SIG_DFL);
    ::dup2(pipes[0][0], STDIN_FILENO);
    ::dup2(pipes[1][1], STDOUT_FILENO);
    ::dup2(pipes[2][1], STDERR_FILENO);
    if (::chdir(folder.c_str()) == 0) ::execve(arguments[0], arguments.data(), environment.data());
    ::_exit(127);
  }
  ::close(pipes[0][0]);
  ::close(pipes[1][1]);
  ::close(pipes[2][1]);
  in_ = pipes[0][1];
  out_ = pipes[1][0];
  err_ = pipes[2][0];
}

ChildProcess::~ChildProcess() {
  CloseIfOpen(in_);
  CloseIfOpen(out_);
  CloseIfOpen(err_);
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

CommandResult ChildProcess::Finish(const std::string& input) {
  CommandResult result;
  std::jthread writer([this, &input] {
    for (std::size_t at = 0; at < input.size();) {
      const ssize_t count = ::write(in_, input.data() + at, input.size() - at);
      if (count <= 0) break;
      at += static_cast<std::size_t>(count);
    }
    CloseIfOpen(in_);
  });
  pollfd waiting[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    if (::poll(waiting, 2, -1) < 0) Fail("poll");
    if (waiting[0].revents != 0 && !Drain(out_, result.out)) waiting[0].fd = -1;
    if (waiting[1].revents != 0 && !Drain(err_, result.err)) waiting[1].fd = -1;
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

void ChildProcess::Signal(int signal) const {
  if (pid_ > 0) ::kill(pid_, signal);  // -1, after its end, would be everybody
}

void ChildProcess::FeedAndAwait(const std::string& input) const {
  if (::write(in_, input.data(), input.size()) != static_cast<ssize_t>(input.size())) Fail("write");
  int left = 1;
  while (left > 0) {
    if (::ioctl(in_, FIONREAD, &left) != 0) Fail("ioctl");
    std::this_thread::yield();
  }
}

CommandResult RunSealane(const std::vector<std::string>& arguments, const std::string& input,
                         const std::map<std::string, std::string>& variables, const std::string& folder) {
  std::vector<std::string> command = {SEALANE_TEST_BINARY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return ChildProcess(command, variables, folder).Finish(input);
}

}  // namespace sealane::testing
