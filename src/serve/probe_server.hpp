#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "serve/listen_address.hpp"
#include "serve/probes.hpp"

namespace sealane {

struct ProbeServerOptions {
  ListenAddress address;
  BuildInfo build = {};
  std::chrono::milliseconds beat_max{60'000};
  std::chrono::milliseconds idle_max{15'000};  ///< for a request to come, and for an answer to be taken
  std::size_t connections_max = 64;            ///< one more is closed at once
  std::size_t header_max = 8 * 1024;           ///< bytes of a request; a body is not accepted
};

/// Serves /livez, /readyz and /metrics over HTTP, on one thread of its own, until it is destroyed.
class ProbeServer {
 public:
  /// `stats` is called on the server's thread for every request. The clock must outlive the server.
  /// kUnavailable (`address_in_use`) or kMisconfigured (`cannot_listen`) when the address cannot be had.
  static Result<std::unique_ptr<ProbeServer>> Start(ProbeServerOptions options, Clock& clock,
                                                    std::function<ServedStats()> stats);
  virtual ~ProbeServer() = default;

  /// Where it listens, with the port that it got.
  virtual ListenAddress address() const = 0;
};

}  // namespace sealane
