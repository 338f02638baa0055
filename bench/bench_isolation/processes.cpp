#include "bench_isolation/processes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sealane::bench {
namespace {

std::mutex ending;  // held by the one that cleans up
std::mutex children_mutex;
std::set<pid_t> children;
std::string folder;

void KillChildren() {
  const std::lock_guard lock(children_mutex);
  for (const pid_t pid : children) ::kill(pid, SIGTERM);
  for (const pid_t pid : children) {
    for (int i = 0; i < 300 && ::waitpid(pid, nullptr, WNOHANG) == 0; ++i) ::usleep(10'000);
    if (::waitpid(pid, nullptr, WNOHANG) == 0) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  children.clear();
}

void CleanUp() {
  // Never given back: a second one, in another thread, waits for the end of the process.
  ending.lock();
  KillChildren();
  Database::DropAll();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

sigset_t EndingSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

/// Without SEALANE_..., which would be taken for settings.
std::vector<char*> ChildEnvironment() {
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("SEALANE_")) kept.push_back(*variable);
  }
  kept.push_back(nullptr);
  return kept;
}

/// build/release/bench/bench_isolation -> build/release/sealane
const std::string& Executable() {
  static const std::string path = [] {
    const auto own = std::filesystem::read_symlink("/proc/self/exe");
    const auto found = own.parent_path().parent_path() / "sealane";
    if (!std::filesystem::exists(found)) Fail("there is no " + found.string() + ": ./dev build makes it");
    return found.string();
  }();
  return path;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace

void CleanUpAtTheEnd() {
  std::string name = (std::filesystem::temp_directory_path() / "bench_isolation.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) Fail("no temporary folder " + name);
  folder = name;
  std::atexit(CleanUp);
  static const sigset_t signals = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([] {
    int signal = 0;
    sigwait(&signals, &signal);
    CleanUp();
    ::_exit(128 + signal);
  }).detach();
}

const std::string& TemporaryFolder() {
  return folder;
}

std::string WriteFile(const std::string& name, const std::string& content) {
  const std::string path = folder + "/" + name;
  std::ofstream(path) << content;
  return path;
}

Sealane::Sealane(const std::vector<std::string>& arguments) {
  static int counter = 0;
  log_ = fmt::format("{}/sealane-{}.log", folder, ++counter);
  const std::string executable = Executable();
  std::vector<char*> argv = {const_cast<char*>(executable.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> environment = ChildEnvironment();
  const int output = ::open(log_.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  const int input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (output < 0 || input < 0) Fail("cannot write " + log_);
  const pid_t parent = ::getpid();
  std::unique_lock lock(children_mutex);
  pid_ = ::fork();
  if (pid_ < 0) {
    lock.unlock();
    Fail("no further process can be started");
  }
  if (pid_ == 0) {
    // Only calls that a child of a program with threads may make.
    ::setpgid(0, 0);  // Ctrl-C is for the parent, which then ends its children
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(input, STDIN_FILENO);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    if (::chdir(folder.c_str()) == 0) ::execve(executable.c_str(), argv.data(), environment.data());
    ::_exit(127);
  }
  children.insert(pid_);
  ::close(output);
  ::close(input);
}

bool Sealane::AwaitEnd(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (pid_ > 0) {
    {
      const std::lock_guard lock(children_mutex);
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        children.erase(pid_);
        pid_ = -1;
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        break;
      }
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return true;
}

bool Sealane::Runs() {
  return !AwaitEnd(std::chrono::milliseconds{0});
}

int Sealane::Wait(std::chrono::seconds limit) {
  if (!AwaitEnd(limit)) {
    ::kill(pid_, SIGKILL);
    AwaitEnd(std::chrono::seconds{10});
  }
  return code_;
}

void Sealane::Stop() {
  for (const int signal : {SIGTERM, SIGTERM, SIGKILL}) {
    if (!Runs()) return;
    ::kill(pid_, signal);
    AwaitEnd(std::chrono::seconds{8});
  }
}

int Sealane::LogLinesWith(const std::string& text) const {
  std::ifstream file(log_);
  int count = 0;
  for (std::string line; std::getline(file, line);) count += line.find(text) != std::string::npos ? 1 : 0;
  return count;
}

std::string Sealane::LogEnd() const {
  constexpr std::size_t kBytes = 2'000;
  const std::string text = ReadAll(log_);
  return text.substr(text.size() > kBytes ? text.size() - kBytes : 0);
}

double Sealane::PeakMib() const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    double kib = 0;
    status >> kib;
    return kib / 1024;
  }
  return 0;
}

void RunSealane(const std::vector<std::string>& arguments) {
  Sealane command(arguments);
  if (const int code = command.Wait(std::chrono::minutes{10}); code != 0) {
    Fail(fmt::format("sealane {} ended with {}: {}", fmt::join(arguments, " "), code, command.LogEnd()));
  }
}

double CpuSecondsOf(pid_t pid) {
  const std::string line = ReadAll(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = line.rfind(')');  // the name may hold blanks
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::array<std::string, 11> skipped;  // from the state to the major faults of children
  for (std::string& field : skipped) fields >> field;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

CostMeter::CostMeter(const Database& database, std::vector<const Sealane*> processes)
    : session_(database.cluster_url()), database_(database.name()), processes_(std::move(processes)) {
  backend_cpu_ = Backends();
  lsn_ = session_.Exec("select pg_current_wal_lsn()");
  for (const Sealane* process : processes_) process_cpu_.push_back(CpuSecondsOf(process->pid()));
  transactions_ = Transactions();
  began_ = std::chrono::steady_clock::now();
}

CostMeter::Cost CostMeter::Read() const {
  Cost cost;
  cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    cost.process_shares.push_back((CpuSecondsOf(processes_[i]->pid()) - process_cpu_[i]) / cost.seconds);
  }
  for (const auto& [pid, cpu] : Backends()) {
    const auto before = backend_cpu_.find(pid);
    cost.server_share += (cpu - (before == backend_cpu_.end() ? 0 : before->second)) / cost.seconds;
  }
  cost.transactions = Transactions() - transactions_;
  cost.wal_bytes = session_.Number(fmt::format("select pg_wal_lsn_diff(pg_current_wal_lsn(), '{}')", lsn_));
  return cost;
}

double CostMeter::Cost::processes() const {
  return std::accumulate(process_shares.begin(), process_shares.end(), 0.0);
}

std::map<pid_t, double> CostMeter::Backends() const {
  const PgResult rows = session_.Checked(
      PQexec(session_.get(), fmt::format("select pid from pg_stat_activity where datname = '{}' and application_name "
                                         "like 'sealane%'",
                                         database_)
                                 .c_str()));
  std::map<pid_t, double> backends;
  for (int i = 0; i < PQntuples(rows.get()); ++i) {
    const pid_t pid = std::atoi(PQgetvalue(rows.get(), i, 0));
    backends.emplace(pid, CpuSecondsOf(pid));
  }
  return backends;
}

double CostMeter::Transactions() const {
  return session_.Number(
      fmt::format("select xact_commit + xact_rollback from pg_stat_database where datname = '{}'", database_));
}

}  // namespace sealane::bench
