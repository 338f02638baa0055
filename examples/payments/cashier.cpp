#include "cashier.hpp"

#include <chrono>

#include "ledger.hpp"

namespace payments {
namespace {

std::int64_t Now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

sealane::MappingPolicy PublicEvents() {
  sealane::MappingPolicy policy;
  policy
      .On("CaptureSucceeded",
          {.topic = "payments",
           .type = "payment.capture_succeeded",
           .fields = {"payment_id", "merchant_id", "capture_id", "amount.currency", "amount.minor", "net_minor"}})
      .On("CaptureUnknown",
          {.topic = "payments", .type = "payment.capture_unknown", .fields = {"payment_id", "merchant_id", "reason"}})
      .On("CaptureDeclined", {.topic = "payments",
                              .type = "payment.capture_declined",
                              .fields = {"payment_id", "merchant_id", "reason"}});
  for (const char* type : {"CaptureSucceeded", "CaptureUnknown", "CaptureDeclined"}) policy.Require(type);
  return policy;
}

Cashier::Cashier() : policy_(PublicEvents()) {
  ValueOrThrow(policy_.Validate());
}

std::string Cashier::Capture(example::Database& database, const Provider& provider,
                             const std::string& payment_id) const {
  std::optional<Payment> payment;
  {
    // That we are about to ask is on record before we do, so that whoever dies in the middle is noticed.
    example::Transaction tx(database);
    payment = Payment::Lock(tx, payment_id);
    if (!payment) {
      throw sealane::SealaneException(sealane::Error(sealane::ErrorKind::kRejected, "unknown_payment",
                                                     "there is no payment `" + payment_id + "`"));
    }
    if (!payment->StartCapture(Now())) return payment->status();
    payment->Save(tx);
    tx.Commit();
  }

  // No transaction is open while the provider thinks.
  const ProviderAnswer answer = AskProvider(provider, payment->id(), payment->CaptureRequest());

  example::Transaction tx(database);
  const auto effect = Complete(tx, payment_id, answer);
  payment = Payment::Lock(tx, payment_id);
  tx.Commit();
  if (effect != Payment::Effect::kContradicts) return payment->status();
  throw sealane::SealaneException(
      sealane::Error(sealane::ErrorKind::kRejected, "contradiction",
                     payment_id + " is " + payment->status() + ", and the provider says otherwise")
          .WithHint("find out from the provider before anything else is done with it"));
}

std::size_t Cashier::Repair(example::Database& database, std::int64_t seconds) const {
  std::size_t repaired = 0;
  example::Transaction tx(database);
  const auto stuck = Query(tx,
                           "SELECT payment_id FROM payment WHERE status = 'CAPTURING' "
                           "AND capturing_since <= $1 ORDER BY payment_id",
                           {Now() - seconds});
  for (const auto& row : stuck) {
    if (Complete(tx, *row[0], {.reason = "process_lost"}) == Payment::Effect::kChanged) ++repaired;
  }
  tx.Commit();
  return repaired;
}

std::optional<Payment::Effect> Cashier::Complete(sealane::HandlerTransaction& tx, const std::string& payment_id,
                                                 const ProviderAnswer& answer) const {
  // [complete]
  std::optional<Payment> payment = Payment::Lock(tx, payment_id);
  if (!payment) return {};
  const Payment::Effect effect = payment->Apply(answer);
  if (effect != Payment::Effect::kChanged) return effect;

  payment->Save(tx);
  if (answer.outcome == ProviderAnswer::kCaptured) PostCapture(tx, *payment);
  if (answer.outcome == ProviderAnswer::kUnknown) {
    ValueOrThrow(tasks_.Enqueue(tx, {.target = "provider",
                                     .operation = "/captures",
                                     .idempotency_key = payment->id(),
                                     .request = payment->CaptureRequest(),
                                     .result_topic = "provider"}));
  }
  sealane::UnitOfWork unit(outbox_, policy_, {.correlation_id = payment->id()});
  unit.Collect(*payment);
  ValueOrThrow(unit.Flush(tx));
  return effect;
  // [/complete]
}

}  // namespace payments
