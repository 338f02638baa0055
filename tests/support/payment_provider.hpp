#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "support/http_receiver.hpp"

namespace sealane::testing {

/// A payment provider as examples/payments meets it: it keeps Idempotency-Keys, so a payment is captured once however
/// often it is asked, and it can lose its answers.
class PaymentProvider {
 public:
  /// What happens to an answer after the provider has done its part.
  enum class Fate { kArrives, kIsLost };
  /// Asked for each request with the payment's id and the number of the request for it, by several threads.
  using Fates = std::function<Fate(const std::string& payment, int request)>;

  PaymentProvider();
  ~PaymentProvider();
  PaymentProvider(const PaymentProvider&) = delete;
  PaymentProvider& operator=(const PaymentProvider&) = delete;

  std::string url() const { return receiver_.url(""); }
  void SetFates(Fates fates);
  /// Payments whose ids begin with this are declined.
  static constexpr const char* kPoor = "poor";

  /// How many payments were captured; each has the id CaptureId().
  std::size_t captures() const;
  int RequestsFor(const std::string& payment) const;
  static std::string CaptureId(const std::string& payment) { return "cap-" + payment; }
  /// What the provider answers, and what its webhook holds besides id and type.
  static std::string Answer(const std::string& payment);
  /// A part of every answer that is nobody else's business.
  static constexpr const char* kPrivate = "acquirer-route-7781";

 private:
  HttpReceiver::Answer Serve(const HttpReceiver::Request& request);

  mutable std::mutex mutex_;
  Fates fates_;
  std::map<std::string, int> requests_;
  std::map<std::string, std::string> bodies_;
  HttpReceiver receiver_;
};

}  // namespace sealane::testing
