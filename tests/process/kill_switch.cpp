#include "process/kill_switch.hpp"

#include <atomic>
#include <csignal>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

// A relay calls from several threads.
std::atomic<long> g_seen{0};
std::atomic<long> g_deadly{-1};
std::atomic<bool> g_before{true};
std::atomic<bool> g_armed{false};

[[noreturn]] void Die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}

/// Makes the call, or dies before or after it when its turn has come.
template <class Call>
auto Counted(Call call) {
  const bool deadly = g_armed && ++g_seen == g_deadly;
  if (deadly && g_before) Die();
  const auto result = call();
  if (deadly) Die();
  return result;
}

}  // namespace

namespace sealane::testing {

void ArmKillSwitch(long deadly, bool before) {
  g_seen = 0;
  g_deadly = deadly;
  g_before = before;
  g_armed = true;
}

long DisarmKillSwitch() {
  g_armed = false;
  return g_seen;
}

}  // namespace sealane::testing

// Definitions in the executable come before those of shared libraries, so libpq, sqlite3 and librdkafka call these.
extern "C" {

ssize_t send(int fd, const void* data, size_t size, int flags) {
  return Counted([&] { return syscall(SYS_sendto, fd, data, size, flags, nullptr, 0); });
}
ssize_t recv(int fd, void* data, size_t size, int flags) {
  return Counted([&] { return syscall(SYS_recvfrom, fd, data, size, flags, nullptr, nullptr); });
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return Counted([&] { return syscall(SYS_sendmsg, fd, message, flags); });
}
ssize_t recvmsg(int fd, msghdr* message, int flags) {
  return Counted([&] { return syscall(SYS_recvmsg, fd, message, flags); });
}
ssize_t write(int fd, const void* data, size_t size) {
  return Counted([&] { return syscall(SYS_write, fd, data, size); });
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return Counted([&] { return syscall(SYS_pwrite64, fd, data, size, offset); });
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  return Counted([&] { return syscall(SYS_pwrite64, fd, data, size, offset); });
}
ssize_t pread64(int fd, void* data, size_t size, off64_t offset) {
  return Counted([&] { return syscall(SYS_pread64, fd, data, size, offset); });
}
int fsync(int fd) {
  return Counted([&] { return static_cast<int>(syscall(SYS_fsync, fd)); });
}
int fdatasync(int fd) {
  return Counted([&] { return static_cast<int>(syscall(SYS_fdatasync, fd)); });
}
int ftruncate(int fd, off_t size) noexcept {
  return Counted([&] { return static_cast<int>(syscall(SYS_ftruncate, fd, size)); });
}
int ftruncate64(int fd, off64_t size) noexcept {
  return Counted([&] { return static_cast<int>(syscall(SYS_ftruncate, fd, size)); });
}
}
