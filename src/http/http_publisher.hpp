#pragma once

#include <cstdint>
#include <memory>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "broker/publisher.hpp"
#include "http/http_options.hpp"

namespace sealane {

/// Posts each message to a URL: its value is the body, its headers are headers (http/http_headers.hpp), and
/// `Idempotency-Key` is the event's id, the same on every attempt.
///
/// Different keys go in parallel; a message of a key is sent when the one before it was answered. While the receiver
/// is away or in trouble messages wait inside, one of them is tried now and then, and health() tells. After an answer
/// that never came the message is sent again: a receiver that keeps Idempotency-Keys takes it once.
///
/// When a message fails for good, those submitted behind it for the same key come back as `held_back`. Redirects are
/// not followed: they would carry payload and secrets to a place nobody configured.
class HttpPublisher : public Publisher {
 public:
  /// How often a message was sent again although the receiver may have taken it. May be called from any thread.
  virtual std::uint64_t resent_count() const = 0;
};

/// Nothing is connected yet. Errors are about the options. The clock must outlive the publisher.
Result<std::unique_ptr<HttpPublisher>> OpenHttpPublisher(const HttpOptions& options, Clock& clock);

}  // namespace sealane
