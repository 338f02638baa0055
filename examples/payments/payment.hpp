#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sealane/domain_events.hpp"
#include "sealane/handler.hpp"

#include "provider_answer.hpp"

namespace payments {

/// A payment, and what happened to it until the unit of work publishes that.
class Payment : public sealane::EventRecorder {
 public:
  /// What an answer of the provider did to a payment.
  enum class Effect {
    kChanged,
    kNone,         ///< it was known already
    kContradicts,  ///< it is the opposite of what was booked: a person has to look
  };

  /// Writes a payment that the card's bank has agreed to. False when its id is taken.
  static bool Authorize(sealane::HandlerTransaction& tx, const std::string& id, const std::string& merchant,
                        const std::string& currency, std::int64_t amount_minor, const std::string& card_number);
  /// Reads it and keeps everybody else from changing it until the transaction ends.
  static std::optional<Payment> Lock(sealane::HandlerTransaction& tx, const std::string& id);
  void Save(sealane::HandlerTransaction& tx) const;

  /// Before the provider is asked. False when its answer is known already.
  bool StartCapture(std::int64_t now);
  Effect Apply(const ProviderAnswer& answer);

  const std::string& id() const { return id_; }
  const std::string& merchant() const { return merchant_; }
  const std::string& currency() const { return currency_; }
  const std::string& status() const { return status_; }
  std::int64_t amount_minor() const { return amount_minor_; }
  std::int64_t fee_minor() const { return amount_minor_ * 29 / 1'000; }
  std::int64_t net_minor() const { return amount_minor_ - fee_minor(); }
  /// The body for the provider. The same for every attempt, as its Idempotency-Key, the payment's id, is.
  std::string CaptureRequest() const;

 private:
  Payment() = default;
  void Move(const std::string& status, const std::string& happened, const ProviderAnswer& answer);

  std::string id_;
  std::string merchant_;
  std::string currency_;
  std::int64_t amount_minor_ = 0;
  std::string card_number_;
  std::string status_;
  std::string capture_id_;
  std::int64_t version_ = 0;
  std::int64_t capturing_since_ = 0;
};

}  // namespace payments
