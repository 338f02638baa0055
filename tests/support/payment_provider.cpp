#include "support/payment_provider.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sealane::testing {

PaymentProvider::PaymentProvider() {
  receiver_.SetHandler([this](const HttpReceiver::Request& request) { return Serve(request); });
}

PaymentProvider::~PaymentProvider() {
  receiver_.Stop();
}

void PaymentProvider::SetFates(Fates fates) {
  const std::lock_guard lock(mutex_);
  fates_ = std::move(fates);
}

std::size_t PaymentProvider::captures() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& [payment, body] : bodies_) count += payment.starts_with(kPoor) ? 0 : 1;
  return count;
}

int PaymentProvider::RequestsFor(const std::string& payment) const {
  const std::lock_guard lock(mutex_);
  const auto found = requests_.find(payment);
  return found == requests_.end() ? 0 : found->second;
}

std::string PaymentProvider::Answer(const std::string& payment) {
  if (payment.starts_with(kPoor)) return R"({"status":"declined","reason":"insufficient_funds"})";
  return fmt::format(R"({{"status":"captured","capture_id":"{}","routing":"{}"}})", CaptureId(payment), kPrivate);
}

HttpReceiver::Answer PaymentProvider::Serve(const HttpReceiver::Request& request) {
  const std::string payment = request.Header("idempotency-key");
  Fates fates;
  int number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++requests_[payment];
    // As providers do: a key stands for one request, and another one under it is a mistake of ours.
    const auto [first, fresh] = bodies_.emplace(payment, request.body);
    EXPECT_EQ(request.target, "/captures");
    EXPECT_EQ(first->second, request.body) << payment;
    fates = fates_;
  }
  if (fates && fates(payment, number) == Fate::kIsLost) return {.hang_up = true};
  return {.headers = {{"Content-Type", "application/json"}}, .body = Answer(payment)};
}

}  // namespace sealane::testing
