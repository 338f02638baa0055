#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "serve/listen_address.hpp"
#include "serve/receive_stats.hpp"
#include "serve/webhook.hpp"
#include "serve/webhook_sink.hpp"

namespace sealane {

struct WebhookServerOptions {
  ListenAddress address = {};
  std::size_t workers = 4;  ///< connections to the store, and deliveries written at a time
  std::size_t body_max = std::size_t{900} << 10U;
  std::size_t header_max = std::size_t{16} << 10U;
  std::size_t connections_max = 256;  ///< one more is closed at once
  std::size_t requests_max = 128;     ///< whose body is read or whose event is written; one more is told to come back
  std::chrono::milliseconds head_max{10'000};    ///< for a whole head to come, an idle connection's included
  std::chrono::milliseconds body_time{30'000};   ///< for a whole body to come
  std::chrono::milliseconds answer_max{10'000};  ///< for an answer to be taken
  std::chrono::milliseconds outage_retry{
      1'000};                           ///< while the store is away, deliveries are answered without asking it
  std::chrono::seconds retry_after{5};  ///< what a provider is told then
};

/// Takes deliveries of webhooks over HTTP and answers them when they are durable, or not at all.
///
/// One thread moves bytes and judges, `workers` threads write, each through a sink of its own. A client that is slow
/// costs a connection for a bounded time and nobody else anything. Bodies and secrets are never logged.
class WebhookServer {
 public:
  /// kUnavailable (`address_in_use`) or kMisconfigured (`cannot_listen`) when the address cannot be had. `clock` must
  /// outlive the server.
  static Result<std::unique_ptr<WebhookServer>> Start(WebhookServerOptions options, std::vector<WebhookRule> rules,
                                                      std::function<std::unique_ptr<WebhookSink>()> make_sink,
                                                      Clock& clock);
  /// Cuts off what is still under way.
  virtual ~WebhookServer() = default;

  /// Takes no further connection, closes the idle ones and lets requests under way end, which at least those of
  /// honest clients do within `limit`. False when some were left. Once.
  virtual bool Drain(std::chrono::milliseconds limit) = 0;

  /// Thread-safe.
  virtual ReceiveStats stats() const = 0;
  /// Where it listens, with the port that it got.
  virtual ListenAddress address() const = 0;
};

}  // namespace sealane
