#pragma once

#include <string>

namespace payments {

/// What the payment provider said about a capture, whichever way it did: as an answer, later to a task, or by
/// webhook.
struct ProviderAnswer {
  enum Outcome {
    kCaptured,
    kDeclined,
    kUnknown,  ///< no answer, or none that can be understood: it may have been captured
  };
  Outcome outcome = kUnknown;
  std::string capture_id = {};
  std::string reason = {};
  std::string said = {};  ///< as it came; not for others
};

/// `{"status":"captured","capture_id":"cap-1"}` or `{"status":"declined","reason":"..."}`; all else is unknown.
ProviderAnswer ReadAnswer(const std::string& text);

/// Asks the provider to capture, and waits two seconds for its answer. Asking again with the same key captures
/// nothing a second time.
ProviderAnswer AskProvider(const std::string& url, const std::string& idempotency_key, const std::string& request);

}  // namespace payments
