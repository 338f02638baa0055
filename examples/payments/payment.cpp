#include "payment.hpp"

#include <nlohmann/json.hpp>

#include "database.hpp"

namespace payments {

using example::Execute;
using example::Query;
using sealane::Fields;
using sealane::HandlerTransaction;
using sealane::SqlValue;

bool Payment::Authorize(HandlerTransaction& tx, const std::string& id, const std::string& merchant,
                        const std::string& currency, std::int64_t amount_minor, const std::string& card_number) {
  return Execute(tx,
                 "INSERT INTO payment (payment_id, merchant_id, currency, amount_minor, card_number) "
                 "VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
                 {id, merchant, currency, amount_minor, card_number}) == 1;
}

std::optional<Payment> Payment::Lock(HandlerTransaction& tx, const std::string& id) {
  // An update of nothing is a SELECT ... FOR UPDATE that SQLite understands as well.
  const auto rows =
      Query(tx,
            "UPDATE payment SET version = version WHERE payment_id = $1 RETURNING merchant_id, currency, "
            "amount_minor, card_number, status, coalesce(capture_id, ''), version, capturing_since",
            {id});
  if (rows.empty()) return {};
  const auto& row = rows.front();
  Payment payment;
  payment.id_ = id;
  payment.merchant_ = *row[0];
  payment.currency_ = *row[1];
  payment.amount_minor_ = std::stoll(*row[2]);
  payment.card_number_ = *row[3];
  payment.status_ = *row[4];
  payment.capture_id_ = *row[5];
  payment.version_ = std::stoll(*row[6]);
  payment.capturing_since_ = std::stoll(*row[7]);
  return payment;
}

void Payment::Save(HandlerTransaction& tx) const {
  Execute(tx,
          "UPDATE payment SET status = $1, capture_id = $2, version = $3, capturing_since = $4 WHERE payment_id = $5",
          {status_, capture_id_.empty() ? SqlValue() : SqlValue(capture_id_), version_, capturing_since_, id_});
}

bool Payment::StartCapture(std::int64_t now) {
  if (status_ == "CAPTURED" || status_ == "DECLINED") return false;
  if (status_ == "AUTHORIZED") {
    status_ = "CAPTURING";
    capturing_since_ = now;
  }
  return true;
}

Payment::Effect Payment::Apply(const ProviderAnswer& answer) {
  const bool open = status_ == "CAPTURING" || status_ == "CAPTURE_UNKNOWN";
  switch (answer.outcome) {
    case ProviderAnswer::kCaptured:
      if (status_ == "CAPTURED") return capture_id_ == answer.capture_id ? Effect::kNone : Effect::kContradicts;
      if (!open) return Effect::kContradicts;
      capture_id_ = answer.capture_id;
      Move("CAPTURED", "CaptureSucceeded", answer);
      return Effect::kChanged;
    case ProviderAnswer::kDeclined:
      if (status_ == "DECLINED") return Effect::kNone;
      if (!open) return Effect::kContradicts;
      Move("DECLINED", "CaptureDeclined", answer);
      return Effect::kChanged;
    case ProviderAnswer::kUnknown:
      // Not knowing never undoes what is known.
      if (status_ != "CAPTURING") return Effect::kNone;
      Move("CAPTURE_UNKNOWN", "CaptureUnknown", answer);
      return Effect::kChanged;
  }
  return Effect::kNone;
}

void Payment::Move(const std::string& status, const std::string& happened, const ProviderAnswer& answer) {
  status_ = status;
  // Everything that is known goes in, the card included: which of it leaves the service is not decided here.
  Record({.type = happened,
          .aggregate = {.type = "payment", .id = id_, .version = ++version_},
          .fields = {{"payment_id", id_},
                     {"merchant_id", merchant_},
                     {"capture_id", capture_id_},
                     {"amount", Fields{{"currency", currency_}, {"minor", amount_minor_}}},
                     {"net_minor", net_minor()},
                     {"reason", answer.reason},
                     {"card_number", card_number_},
                     {"provider_said", answer.said}}});
}

std::string Payment::CaptureRequest() const {
  return nlohmann::json{{"payment_id", id_}, {"currency", currency_}, {"amount_minor", amount_minor_}}.dump();
}

}  // namespace payments
