#include "demo/offices.hpp"

#include <fmt/format.h>

#include "demo/evidence.hpp"
#include "demo/order_message.hpp"

namespace sealane::demo {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kApprovedByItselfCents = 10'000;

std::string InsertInto(const std::string& table) {
  return fmt::format("INSERT INTO {} (event_id, order_id, version, cents, decision) VALUES ($1, $2, $3, $4, $5)",
                     table);
}

std::vector<SqlValue> EffectOf(const Envelope& event, const OrderMessage& message, std::string decision) {
  return {event.id.ToString(), message.order, event.aggregate.version.value_or(0), message.cents,
          std::move(decision)};
}

}  // namespace

Result<std::unique_ptr<Offices>> Offices::Open(const Place& place, SideWriter* side, FirstFailure& failure) {
  std::unique_ptr<Offices> offices(new Offices(place, side, failure));
  SEALANE_RETURN_IF_ERROR(offices->OpenInboxes());
  return offices;
}

Offices::Offices(const Place& place, SideWriter* side, FirstFailure& failure)
    : place_(place),
      side_(side),
      failure_(failure),
      outbox_({.producer = "payments"}),
      insert_payment_(InsertInto(place.dialect().Shop(kPayments))),
      add_paid_(fmt::format("INSERT INTO {} AS p (order_id, cents) VALUES ($1, $2) ON CONFLICT (order_id) "
                            "DO UPDATE SET cents = p.cents + excluded.cents",
                            place.dialect().Shop("paid"))),
      insert_approval_(InsertInto(place.dialect().Shop(kApprovals))) {}

Offices::~Offices() {
  for (Inbox& inbox : inboxes_) inbox.Stop();
}

Status Offices::OpenInboxes() {
  Handlers payments;
  const auto take = [this](const Envelope& event, HandlerTransaction& tx) { return TakePayment(event, tx); };
  payments.On("OrderPlaced", take);
  payments.On("OrderChanged", take);
  InboxOptions options = OptionsOf(kPayments, kOrders);
  options.guard_versions = true;
  SEALANE_ASSIGN_OR_RETURN(Inbox first, Inbox::Open(std::move(options), std::move(payments)));
  Handlers approvals;
  approvals.On("PaymentTaken", [this](const Envelope& event, HandlerTransaction& tx) { return Approve(event, tx); });
  SEALANE_ASSIGN_OR_RETURN(Inbox second, Inbox::Open(OptionsOf(kApprovals, kPayments), std::move(approvals)));
  inboxes_.push_back(std::move(first));
  inboxes_.push_back(std::move(second));
  return Ok();
}

InboxOptions Offices::OptionsOf(std::string_view consumer, std::string_view topic) const {
  const cli::Settings& store = place_.store();
  return {.store = store.Text(cli::Key::kStoreUrl),
          .broker = place_.broker_url(),
          .consumer = place_.Named(consumer),
          .topics = {place_.Named(topic)},
          // SQLite has one writer, and workers that wait for each other gain nothing.
          .workers = place_.dialect().is_postgres() ? std::size_t{4} : std::size_t{1},
          .reject_unknown_types = true,
          .retry = "brief",
          .store_password = store.password().Reveal(),
          .schema = store.Text(cli::Key::kStoreSchema),
          .connect_timeout = store.Duration(cli::Key::kStoreConnectTimeout)};
}

void Offices::Start() {
  for (Inbox& inbox : inboxes_) {
    threads_.emplace_back([this, &inbox] {
      if (const Status end = inbox.Run(); !end) failure_.Note(end.error());
    });
  }
}

Decision Offices::TakePayment(const Envelope& event, HandlerTransaction& tx) {
  const OrderMessage message = ValueOrThrow(OrderMessageFrom(event.payload));
  if (message.cents < 0) return Decision::Reject("negative_amount", "an order cannot cost less than nothing");
  const bool fails = message.fails_once && FailsNow(event.id);
  // An attempt that fails marks what it writes, so that its effect can be told from the one of the attempt after it.
  const std::string decision(fails ? kFailedAttempt : "taken");
  if (side_ != nullptr) {
    side_->Write(insert_payment_,
                 {event.id.ToString(), message.order, std::to_string(event.aggregate.version.value_or(0)),
                  std::to_string(message.cents), decision});
  } else {
    ValueOrThrow(tx.Execute(insert_payment_, EffectOf(event, message, decision)));
  }
  const std::vector<SqlValue> paid = {message.order, message.cents};
  ValueOrThrow(tx.Execute(add_paid_, paid));
  const Event taken{.topic = place_.Named(kPayments),
                    .key = message.order,
                    .type = "PaymentTaken",
                    .payload = ToPayload({.order = message.order, .cents = message.cents}),
                    .tenant = event.tenant,
                    .aggregate = {.type = "payment", .id = message.order, .version = event.aggregate.version},
                    .causation_id = event.id.ToString()};
  ValueOrThrow(outbox_.Append(tx, taken));
  if (fails) return Decision::RetryLater("bank_timeout", "the bank did not answer in time", milliseconds{100});
  return Decision::Done();
}

Decision Offices::Approve(const Envelope& event, HandlerTransaction& tx) const {
  const OrderMessage message = ValueOrThrow(OrderMessageFrom(event.payload));
  const bool small = message.cents <= kApprovedByItselfCents;
  ValueOrThrow(tx.Execute(insert_approval_, EffectOf(event, message, small ? "approved" : "to be looked at")));
  return Decision::Done();
}

bool Offices::FailsNow(const EventId& id) {
  const std::lock_guard lock(mutex_);
  return failed_.insert(id).second;
}

std::int64_t Offices::failures() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(failed_.size());
}

}  // namespace sealane::demo
