#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "sealane/error.hpp"

#include "broker/delivery.hpp"

namespace sealane::http {

/// What came back for one request.
struct Answer {
  int transport = 0;  ///< libcurl's code; 0: there is a status
  long status = 0;
  bool request_sent = false;  ///< at least a part of it
  std::chrono::seconds retry_after{0};
};

/// What to do about it.
struct AnswerVerdict {
  enum class Kind : std::uint8_t {
    kPersisted,
    kTryAgain,  ///< the receiver or the way to it is at fault: keep the message and send it again
    kFailed,    ///< the message is at fault
  };
  Kind kind = Kind::kPersisted;
  std::optional<Error> problem = {};               ///< unless persisted
  FailureClass failure = FailureClass::kRejected;  ///< with kFailed
  bool unknown = false;                            ///< with kTryAgain: the receiver may have taken it
};

/// 2xx is persisted. Everything that a receiver or proxy in trouble says (408, 425, 429, 502, 503, 504) or cannot say
/// is an outage; after 502 and 504 the receiver may have taken the message. 401, 403, redirects and a URL where
/// nothing is or that takes no POST (404, 410, 405) are for a person to repair; nothing is lost meanwhile. 409 (the
/// first request with this Idempotency-Key is still being worked on), 423, 424 and other 5xx may pass for this
/// message; other 4xx reject it.
AnswerVerdict JudgeAnswer(const Answer& answer);

}  // namespace sealane::http
