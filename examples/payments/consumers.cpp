#include "consumers.hpp"

#include <functional>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "sealane/projection.hpp"

namespace payments {
namespace {

using nlohmann::json;
using sealane::Decision;
using sealane::Envelope;
using sealane::HandlerTransaction;

/// A payload that cannot be read today cannot be read tomorrow: it is set aside at once instead of being tried again.
sealane::Handler Reading(std::function<Decision(const json&, const Envelope&, HandlerTransaction&)> handler) {
  return [handler = std::move(handler)](const Envelope& event, HandlerTransaction& tx) {
    try {
      return handler(json::parse(event.payload), event, tx);
    } catch (const json::exception&) {
      return Decision::Reject("unreadable_payload", "the payload of a " + event.type + " is not as agreed");
    }
  };
}

Decision Settle(const Cashier& cashier, HandlerTransaction& tx, const std::string& payment_id,
                const ProviderAnswer& answer) {
  if (answer.outcome == ProviderAnswer::kUnknown) return Decision::Reject(answer.reason, "about " + payment_id);
  const auto effect = cashier.Complete(tx, payment_id, answer);
  // The row is committed before the provider hears of the payment, so it cannot be on its way.
  if (!effect) return Decision::Reject("unknown_payment", "there is no payment " + payment_id);
  switch (*effect) {
    case Payment::Effect::kChanged:
      return Decision::Done();
    case Payment::Effect::kNone:
      return Decision::Ignore("settled_already");
    case Payment::Effect::kContradicts:
      break;
  }
  return Decision::Reject("contradiction", "the provider says otherwise about " + payment_id);
}

Decision Report(HandlerTransaction& tx, const json& payment, const Envelope& event, const std::string& status) {
  sealane::ProjectedRow row{
      .table = "merchant_payment",
      .key = {{"payment_id", payment.at("payment_id").get<std::string>()}},
      .set = {{"merchant_id", payment.at("merchant_id").get<std::string>()}, {"status", status}}};
  if (status == "captured") {
    row.set.emplace_back("currency", payment.at("amount").at("currency").get<std::string>());
    row.set.emplace_back("amount_minor", payment.at("amount").at("minor").get<std::int64_t>());
    row.set.emplace_back("net_minor", payment.at("net_minor").get<std::int64_t>());
  }
  return ValueOrThrow(Project(tx, row, event)) ? Decision::Done() : Decision::Ignore("known");
}

}  // namespace

sealane::Handlers SettlePayments(const Cashier& cashier) {
  sealane::Handlers handlers;
  handlers.On("TaskSucceeded", Reading([&](const json& task, const Envelope&, HandlerTransaction& tx) {
                return Settle(cashier, tx, task.at("idempotency_key"), ReadAnswer(task.value("response", "")));
              }));
  handlers.On("TaskDead", [](const Envelope&, HandlerTransaction&) {
    // Still unknown, and it stays so: `sealane tasks list --state DEAD` is where a person finds out.
    return Decision::Ignore("still_unknown");
  });
  handlers.On("capture", Reading([&](const json& webhook, const Envelope& event, HandlerTransaction& tx) {
                return Settle(cashier, tx, webhook.at("payment_id"), ReadAnswer(event.payload));
              }));
  return handlers;
}

sealane::Handlers ReportToMerchants() {
  sealane::Handlers handlers;
  const std::map<std::string, std::string> statuses = {{"payment.capture_succeeded", "captured"},
                                                       {"payment.capture_unknown", "pending"},
                                                       {"payment.capture_declined", "declined"}};
  for (const auto& [type, status] : statuses) {
    handlers.On(type, Reading([status = status](const json& payment, const Envelope& event, HandlerTransaction& tx) {
                  return Report(tx, payment, event, status);
                }));
  }
  return handlers;
}

}  // namespace payments
