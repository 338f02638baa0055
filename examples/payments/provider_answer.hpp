#pragma once

#include <chrono>
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

struct Provider {
  std::string url;
  std::chrono::seconds timeout{2};  ///< how long its answer is waited for
};

/// Asks the provider to capture. Asking again with the same key captures nothing a second time.
ProviderAnswer AskProvider(const Provider& provider, const std::string& idempotency_key, const std::string& request);

}  // namespace payments
