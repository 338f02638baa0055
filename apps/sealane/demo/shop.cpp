#include "demo/shop.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace sealane::demo {
namespace {

using std::chrono::nanoseconds;

constexpr std::array<std::string_view, 3> kQuietTenants = {"amber", "birch", "cedar"};
// Changes go to orders that were placed lately, so that keys have several events close together.
constexpr std::size_t kOpenOrders = 100;
constexpr std::uint64_t kOneInRolledBack = 25;
constexpr std::uint64_t kOneInFailsOnce = 40;

}  // namespace

Shop::Shop(const Place& place, const Plan& plan, std::uint64_t seed, std::unique_ptr<Database> database, Board& board,
           Clock& clock)
    : place_(place),
      plan_(plan),
      random_(seed),
      database_(std::move(database)),
      board_(board),
      clock_(clock),
      outbox_({.producer = "shop"}) {}

Status Shop::Run(std::stop_token stop) {
  const std::array<Step, 4> steps = {{{plan_.poison, &Shop::SendPoison},
                                      {plan_.early, &Shop::SendSecondVersion},
                                      {plan_.early_resolved, &Shop::SendFirstVersion},
                                      {plan_.noise, &Shop::MakeNoise}}};
  const auto interval = nanoseconds{static_cast<nanoseconds::rep>(1e9 / plan_.orders_per_second)};
  const BootTime begin = clock_.SinceBoot();
  std::size_t next_step = 0;
  // Customers do not wait for a slow shop: what is late is made up for.
  for (BootTime due = begin; due - begin < plan_.end; due += interval) {
    const BootTime now = clock_.SinceBoot();
    if (due > now && !clock_.SleepFor(due - now, stop)) return Ok();
    if (stop.stop_requested()) return Ok();
    while (next_step < steps.size() && due - begin >= steps[next_step].at) {
      SEALANE_RETURN_IF_ERROR((this->*steps[next_step++].action)());
    }
    SEALANE_RETURN_IF_ERROR(DoBusiness());
  }
  // A very slow pace leaves steps over.
  while (next_step < steps.size()) SEALANE_RETURN_IF_ERROR((this->*steps[next_step++].action)());
  return Ok();
}

Status Shop::PlaceFirst() {
  Order order = NewOrder();
  SEALANE_RETURN_IF_ERROR(Commit(order, 1, {.order = order.id, .cents = SomeCents()}));
  order.version = 1;
  orders_.push_back(std::move(order));
  return Ok();
}

Status Shop::DoBusiness() {
  const bool change = !orders_.empty() && OneIn(2);
  const std::size_t open = std::min(orders_.size(), kOpenOrders);
  Order order = change ? orders_[orders_.size() - 1 - random_.Below(open)] : NewOrder();
  const bool regretted = OneIn(kOneInRolledBack);
  const OrderMessage message{.order = order.id, .cents = SomeCents(), .fails_once = OneIn(kOneInFailsOnce)};
  SEALANE_RETURN_IF_ERROR(database_->Begin());
  SEALANE_ASSIGN_OR_RETURN(const std::string id, Write(order, order.version + 1, message));
  if (regretted) {
    notes_.rolled_back.push_back(id);
    return database_->Rollback();
  }
  SEALANE_RETURN_IF_ERROR(database_->Commit());
  notes_.committed.push_back(id);
  if (message.fails_once) ++notes_.failing_once;
  ++order.version;
  if (change) {
    *std::find_if(orders_.rbegin(), orders_.rend(), [&](const Order& known) { return known.id == order.id; }) = order;
  } else {
    orders_.push_back(order);
  }
  return Ok();
}

Status Shop::SendPoison() {
  const Order order{.id = "o-poison", .tenant = std::string(kQuietTenants[0])};
  SEALANE_ASSIGN_OR_RETURN(const std::string dead, Commit(order, 1, {.order = order.id, .cents = -1}));
  notes_.dead.push_back(dead);
  for (const std::int64_t version : {2, 3}) {
    SEALANE_ASSIGN_OR_RETURN(const std::string behind, Commit(order, version, {.order = order.id, .cents = 500}));
    notes_.behind_dead.push_back(behind);
  }
  board_.Say("a poison event: order o-poison costs -1 cents, and two changes of it follow", Tone::kBroken);
  return Ok();
}

Status Shop::SendSecondVersion() {
  const Order order{.id = "o-early", .tenant = std::string(kQuietTenants[1])};
  SEALANE_ASSIGN_OR_RETURN(const std::string early, Commit(order, 2, {.order = order.id, .cents = 700}));
  notes_.early.push_back(early);
  board_.Break("o-early waits for its version 1",
               "an event out of order: version 2 of o-early, and no version 1 yet");
  return Ok();
}

Status Shop::SendFirstVersion() {
  const Order order{.id = "o-early", .tenant = std::string(kQuietTenants[1])};
  SEALANE_RETURN_IF_ERROR(Commit(order, 1, {.order = order.id, .cents = 300}));
  board_.Heal("o-early waits for its version 1", "version 1 of o-early is committed too");
  return Ok();
}

// One huge transaction, as an import would make it.
Status Shop::MakeNoise() {
  board_.Say(fmt::format("a noisy tenant: {} orders at once; its rule lets {} events/s pass", plan_.noisy_orders,
                         plan_.noisy_rate),
             Tone::kBroken);
  std::vector<Event> events;
  SEALANE_RETURN_IF_ERROR(database_->Begin());
  for (std::int64_t n = 1; n <= plan_.noisy_orders; ++n) {
    const Order order{.id = fmt::format("n-{}", n), .tenant = std::string(kNoisyTenant)};
    const OrderMessage message{.order = order.id, .cents = SomeCents()};
    const std::array<std::string, 3> row = {order.id, order.tenant, std::to_string(message.cents)};
    SEALANE_RETURN_IF_ERROR(
        database_->Execute(fmt::format("INSERT INTO {} (id, tenant, cents, changes) VALUES ($1, $2, $3, 1)",
                                       place_.dialect().Shop("orders")),
                           row));
    events.push_back(EventOf(order, 1, message));
  }
  SEALANE_ASSIGN_OR_RETURN(const std::vector<Appended> appended, outbox_.AppendAll(database_->transaction(), events));
  SEALANE_RETURN_IF_ERROR(database_->Commit());
  for (const Appended& event : appended) notes_.committed.push_back(event.id.ToString());
  notes_.noisy_orders = plan_.noisy_orders;
  return Ok();
}

Shop::Order Shop::NewOrder() {
  return {.id = fmt::format("o-{}", ++placed_),
          .tenant = std::string(kQuietTenants[random_.Below(kQuietTenants.size())])};
}

Event Shop::EventOf(const Order& order, std::int64_t version, const OrderMessage& message) const {
  return {.topic = place_.Named(kOrders),
          .key = order.id,
          .type = version == 1 ? "OrderPlaced" : "OrderChanged",
          .payload = ToPayload(message),
          .tenant = order.tenant,
          .aggregate = {.type = "order", .id = order.id, .version = version}};
}

Result<std::string> Shop::Write(const Order& order, std::int64_t version, const OrderMessage& message) {
  const std::array<std::string, 3> row = {order.id, order.tenant, std::to_string(message.cents)};
  SEALANE_RETURN_IF_ERROR(database_->Execute(
      fmt::format("INSERT INTO {} AS o (id, tenant, cents, changes) VALUES ($1, $2, $3, 1) ON CONFLICT (id) "
                  "DO UPDATE SET cents = o.cents + excluded.cents, changes = o.changes + 1",
                  place_.dialect().Shop("orders")),
      row));
  SEALANE_ASSIGN_OR_RETURN(const Appended appended,
                           outbox_.Append(database_->transaction(), EventOf(order, version, message)));
  return appended.id.ToString();
}

Result<std::string> Shop::Commit(const Order& order, std::int64_t version, const OrderMessage& message) {
  SEALANE_RETURN_IF_ERROR(database_->Begin());
  SEALANE_ASSIGN_OR_RETURN(std::string id, Write(order, version, message));
  SEALANE_RETURN_IF_ERROR(database_->Commit());
  notes_.committed.push_back(id);
  return id;
}

}  // namespace sealane::demo
