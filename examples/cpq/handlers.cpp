#include "handlers.hpp"

#include <string>

#include <nlohmann/json.hpp>

#include "sealane/outbox.hpp"
#include "sealane/projection.hpp"
#include "sealane/tasks.hpp"
#include "sealane/versions.hpp"

#include "topics.hpp"

namespace example {
namespace {

using nlohmann::json;
using sealane::Decision;
using sealane::Envelope;
using sealane::HandlerTransaction;
using sealane::SqlValue;

// A projection: the case shows the newest state that was seen and never goes back, whatever order events come in.

Decision OpenCase(const Envelope& event, HandlerTransaction& tx) {
  const json quote = json::parse(event.payload);
  ValueOrThrow(sealane::Project(tx,
                                {.table = "approval_case",
                                 .key = {{"quote_id", event.aggregate.id}},
                                 .set = {{"customer", quote.at("customer").get<std::string>()},
                                         {"total", quote.at("total").get<std::int64_t>()},
                                         {"status", "OPEN"}}},
                                event));
  return Decision::Done();
}

Decision CloseCase(const Envelope& event, HandlerTransaction& tx) {
  ValueOrThrow(sealane::Project(
      tx, {.table = "approval_case", .key = {{"quote_id", event.aggregate.id}}, .set = {{"status", "CLOSED"}}},
      event));
  return Decision::Done();
}

// A command trigger: the order and the event about it commit together, and the event names QuoteAccepted as its
// cause.

Decision CreateOrder(const Envelope& event, HandlerTransaction& tx) {
  static const sealane::Outbox outbox({.producer = "cpq-orders"});
  const json quote = json::parse(event.payload);
  const std::string order_id = "O-" + event.aggregate.id;
  const SqlValue order[] = {order_id, event.aggregate.id, quote.at("customer").get<std::string>(),
                            quote.at("total").get<std::int64_t>()};
  // The event id keeps this event from making two orders. That no other event, and no second consumer under another
  // name, makes one for the same quote is up to the table.
  const auto created = ValueOrThrow(tx.Execute(
      "INSERT INTO customer_order (id, quote_id, customer, total, status) VALUES ($1, $2, $3, $4, 'CREATED')"
      " ON CONFLICT DO NOTHING",
      order));
  if (created == 0) return Decision::Ignore("order_exists");
  const auto version = ValueOrThrow(sealane::NextVersion(tx, {.tenant = {}, .type = "order", .id = order_id}));
  ValueOrThrow(outbox.Append(tx, {.topic = TopicOf("orders"),
                                  .key = order_id,
                                  .type = "OrderCreated",
                                  .payload = json{{"order_id", order_id},
                                                  {"quote_id", event.aggregate.id},
                                                  {"customer", quote["customer"]},
                                                  {"total", quote["total"]}}
                                                 .dump(),
                                  .aggregate = {.type = "order", .id = order_id, .version = version}}));
  return Decision::Done();
}

// Calls to the outside world are not made here, where they could happen twice or for nothing, but written down as
// tasks. The order's id is the idempotency key: however often this runs and the call is repeated, it is the same
// wish.

Decision StartFulfilment(const Envelope& event, HandlerTransaction& tx) {
  static const sealane::Tasks tasks;
  ValueOrThrow(tasks.Enqueue(tx, {.target = "fulfilment",
                                  .operation = "order-fulfilment",  // the process to start
                                  .idempotency_key = event.aggregate.id,
                                  .request = event.payload,
                                  .result_topic = TopicOf("tasks")}));
  return Decision::Done();
}

Decision Bill(const Envelope& event, HandlerTransaction& tx) {
  static const sealane::Tasks tasks;
  ValueOrThrow(tasks.Enqueue(tx, {.target = "billing",
                                  .operation = "/charges",
                                  .idempotency_key = event.aggregate.id,
                                  .request = event.payload,
                                  .result_topic = TopicOf("tasks")}));
  const SqlValue order[] = {event.aggregate.id};
  ValueOrThrow(tx.Execute("UPDATE customer_order SET billing = 'REQUESTED' WHERE id = $1", order));
  return Decision::Done();
}

// How a task ended comes back as an event and becomes part of the order.

Decision NoteResult(const Envelope& event, HandlerTransaction& tx) {
  const json task = json::parse(event.payload);
  const std::string order_id = task.at("idempotency_key");
  const bool succeeded = event.type == "TaskSucceeded";
  if (task.at("target") == "billing") {
    const SqlValue values[] = {succeeded ? "CHARGED" : "FAILED", order_id};
    ValueOrThrow(tx.Execute("UPDATE customer_order SET billing = $1 WHERE id = $2", values));
  } else if (succeeded) {
    const json started = json::parse(task.at("response").get<std::string>());
    const SqlValue values[] = {started.at("processInstanceKey").get<std::string>(), order_id};
    ValueOrThrow(tx.Execute("UPDATE customer_order SET process_instance = $1 WHERE id = $2", values));
  }
  return Decision::Done();
}

/// A payload that is not what its type promises gets no better by trying again: it is set aside for a person.
sealane::Handler Strict(Decision (*handle)(const Envelope&, HandlerTransaction&)) {
  return [handle](const Envelope& event, HandlerTransaction& tx) {
    try {
      return handle(event, tx);
    } catch (const json::exception& error) {
      return Decision::Reject("invalid_payload", error.what());
    }
  };
}

}  // namespace

sealane::Handlers CpqHandlers() {
  sealane::Handlers handlers;
  handlers.On("QuoteSubmitted", Strict(OpenCase));
  handlers.On("QuoteApproved", Strict(CloseCase));
  handlers.On("QuoteAccepted", Strict(CreateOrder));
  handlers.On("OrderCreated", Strict(StartFulfilment));
  handlers.On("OrderCompleted", Strict(Bill));
  handlers.On("TaskSucceeded", Strict(NoteResult));
  handlers.On("TaskDead", Strict(NoteResult));
  return handlers;
}

}  // namespace example
