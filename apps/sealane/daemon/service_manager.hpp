#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace sealane::cli {

/// Tells systemd how the service is, by datagrams to $NOTIFY_SOCKET; says nothing when there is none.
class ServiceManager {
 public:
  explicit ServiceManager(const std::map<std::string, std::string>& variables);
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  /// Lines such as `READY=1`. Never blocks, never fails.
  void Notify(std::string_view lines) const;
  /// How often the watchdog wants to hear from us at least; empty: there is none.
  std::optional<std::chrono::milliseconds> watchdog() const { return watchdog_; }

 private:
  int socket_ = -1;
  std::string address_;  // a path, or an abstract name that begins with NUL
  std::optional<std::chrono::milliseconds> watchdog_;
};

}  // namespace sealane::cli
