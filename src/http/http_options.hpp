#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "sealane/event.hpp"

#include "broker/held_message.hpp"

namespace sealane {

struct HttpOptions {
  std::string url;       ///< http:// or https://; every message goes there. user:password@ is basic authentication
  Headers headers = {};  ///< sent with every request, for example `Authorization`
  std::string ca_file = {};                                      ///< PEM; empty: the system's certificates
  std::chrono::milliseconds timeout = std::chrono::seconds{30};  ///< of one request
  std::chrono::milliseconds connect_timeout = std::chrono::seconds{5};
  std::size_t connections_max = 16;                                      ///< requests under way at a time
  std::chrono::milliseconds retry_min = std::chrono::milliseconds{100};  ///< first pause while the receiver is away
  std::chrono::milliseconds retry_max = std::chrono::seconds{30};  ///< longest one; Retry-After may ask for more
  /// Pause while a person has to change something (401, certificate): one message finds out that it was done.
  std::chrono::milliseconds misconfigured_retry = std::chrono::seconds{5};
  HoldLimits hold = {};
};

}  // namespace sealane
