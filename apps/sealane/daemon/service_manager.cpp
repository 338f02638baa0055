#include "daemon/service_manager.hpp"

#include <charconv>
#include <cstddef>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace sealane::cli {
namespace {

std::string Variable(const std::map<std::string, std::string>& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

}  // namespace

ServiceManager::ServiceManager(const std::map<std::string, std::string>& variables) {
  address_ = Variable(variables, "NOTIFY_SOCKET");
  const bool usable = !address_.empty() && (address_[0] == '/' || address_[0] == '@') &&
                      address_.size() < sizeof(sockaddr_un::sun_path);
  if (!usable) return;
  if (address_[0] == '@') address_[0] = '\0';
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

  // The variable may be meant for a parent that we inherited it from.
  const std::string pid = Variable(variables, "WATCHDOG_PID");
  if (!pid.empty() && pid != std::to_string(::getpid())) return;
  const std::string limit = Variable(variables, "WATCHDOG_USEC");
  std::int64_t microseconds = 0;
  std::from_chars(limit.data(), limit.data() + limit.size(), microseconds);
  if (microseconds > 0) watchdog_ = std::chrono::milliseconds(microseconds / 2'000);
}

ServiceManager::~ServiceManager() {
  if (socket_ >= 0) ::close(socket_);
}

void ServiceManager::Notify(std::string_view lines) const {
  if (socket_ < 0) return;
  sockaddr_un target{};
  target.sun_family = AF_UNIX;
  address_.copy(target.sun_path, address_.size());
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size() + (address_[0] == '\0' ? 0 : 1));
  [[maybe_unused]] const ssize_t sent = ::sendto(socket_, lines.data(), lines.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                                                 reinterpret_cast<const sockaddr*>(&target), size);
}

}  // namespace sealane::cli
