#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "sealane/clock.hpp"
#include "sealane/event_id.hpp"
#include "sealane/outbox.hpp"
#include "sealane/result.hpp"

#include "outbox/outbox_store.hpp"
#include "serve/webhook.hpp"

namespace sealane {

/// What became of a delivery that was handed over.
enum class WebhookFate : std::uint8_t {
  kNew,        ///< its event is committed
  kDuplicate,  ///< it was before
  kConflict,   ///< the provider used the id before, for another body; nothing was written
};

struct TakenWebhook {
  WebhookFate fate = WebhookFate::kNew;
  std::string event_id = {};  ///< of the committed event; empty with kConflict
};

/// Port: where genuine deliveries go. One worker's own, not thread-safe.
class WebhookSink {
 public:
  virtual ~WebhookSink() = default;
  /// Durable when this returns a value. kRejected: it will never be taken. Any other error: the provider has to send
  /// it again, whether or not it was written.
  virtual Result<TakenWebhook> Take(const WebhookDelivery& delivery) = 0;
  /// Reaches for the store when it has no connection: Ok when it has one.
  virtual Status Reach() = 0;
  /// Whether it has a connection, which may be broken without anybody's knowing.
  virtual bool reached() const = 0;
};

using OpenOutbox = std::function<Result<std::unique_ptr<OutboxStore>>()>;

struct OutboxSinkOptions {
  std::chrono::seconds remember = std::chrono::hours{24 * 30};  ///< how long an event id is known
  std::chrono::milliseconds in_progress_max{2'000};             ///< how long to wait for the same delivery elsewhere
  std::chrono::milliseconds in_progress_pause{20};
  std::function<void()> committed = {};  ///< called after each commit, from the worker's thread
};

/// Appends deliveries to an outbox, each in a transaction of its own with the record of its id (Idempotency), over
/// one connection that is opened when it is needed and again when it broke. `outbox` and `clock` must outlive it.
std::unique_ptr<WebhookSink> MakeOutboxSink(OutboxSinkOptions options, OpenOutbox open, const Outbox& outbox,
                                            Clock& clock);

}  // namespace sealane
