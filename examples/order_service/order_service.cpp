#include "order_service.hpp"

#include <cstdint>
#include <optional>

#include <nlohmann/json.hpp>

namespace example {
namespace {

using nlohmann::json;

Response Problem(int status, const std::string& message) {
  return {status, json{{"error", message}}.dump()};
}

bool IsWithin(const json& value, std::int64_t min, std::int64_t max) {
  return value.is_number_integer() && value >= min && value <= max;
}

bool IsName(const json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return !text.empty() && text.size() <= 200 && text.find('\0') == std::string::npos;
}

/// An order as a client asks for it, with its total in cents; empty when it makes no sense.
std::optional<json> ReadOrder(const std::string& body) {
  json order = json::parse(body, nullptr, false);
  if (!order.is_object() || !IsName(order["customer"]) || !order["items"].is_array()) return std::nullopt;
  if (order["items"].empty() || order["items"].size() > 100) return std::nullopt;
  std::int64_t total = 0;
  for (const json& item : order["items"]) {
    const bool complete = item.is_object() && IsName(item.value("sku", json())) &&
                          IsWithin(item.value("quantity", json()), 1, 1'000) &&
                          IsWithin(item.value("price", json()), 1, 100'000'000);
    if (!complete) return std::nullopt;
    total += item["quantity"].get<std::int64_t>() * item["price"].get<std::int64_t>();
  }
  return json{{"customer", order["customer"]}, {"items", order["items"]}, {"total", total}};
}

/// Everything a consumer needs is in the event: nobody has to come back and ask.
sealane::Event OrderCreated(const std::string& topic, const json& order, const std::string& request_key) {
  const std::string id = order["order_id"];
  return {.topic = topic,
          .key = id,
          .type = "OrderCreated",
          .payload = order.dump(),
          .aggregate = {.type = "Order", .id = id, .version = 1},
          .correlation_id = request_key};
}

}  // namespace

Response OrderService::Answer(Database& database, const Request& request) const {
  constexpr std::string_view kOrders = "/orders";
  if (request.method == "POST" && request.target == kOrders) {
    if (request.idempotency_key.empty())
      return Problem(400, "send an Idempotency-Key, the same for every repetition");
    return Place(database, request.idempotency_key, request.body);
  }
  if (request.method == "GET" && request.target.starts_with("/orders/")) {
    return Find(database, request.target.substr(kOrders.size() + 1));
  }
  return Problem(404, "there is POST /orders and GET /orders/ID");
}

Response OrderService::Place(Database& database, const std::string& key, const std::string& body) const {
  auto order = ReadOrder(body);
  if (!order) return Problem(400, "an order has a customer and items, each with sku, quantity and price in cents");

  Transaction tx(database);
  const sealane::IdempotencyClaim claim{.tenant = {}, .key = key, .request_hash = sealane::HashRequest(body)};
  const auto once = ValueOrThrow(idempotency_.Begin(tx, claim));
  switch (once.state) {
    case sealane::IdempotencyState::kReplay:  // whoever repeats a request gets the answer that he missed
      return {once.response->status, once.response->body};
    case sealane::IdempotencyState::kConflict:
      return Problem(422, "this Idempotency-Key was used for another order");
    case sealane::IdempotencyState::kInProgress:
      return Problem(409, "this order is being taken right now: ask again");
    case sealane::IdempotencyState::kNew:
      break;
  }

  const std::string id = sealane::EventIdGenerator::Instance().Next().ToString();
  const std::int64_t total = (*order)["total"];
  (*order)["order_id"] = id;
  Execute(tx, "INSERT INTO orders (id, customer, items, total, status) VALUES ($1, $2, $3, $4, 'CREATED')",
          {id, (*order)["customer"].get<std::string>(), (*order)["items"].dump(), total});
  Execute(tx, "INSERT INTO order_audit (order_id, action, request_key) VALUES ($1, 'created', $2)", {id, key});
  ValueOrThrow(outbox_.Append(tx, OrderCreated(topic_, *order, key)));
  const sealane::StoredResponse response{
      .status = 201, .body = json{{"order_id", id}, {"status", "CREATED"}, {"total", total}}.dump()};
  ValueOrThrow(idempotency_.Complete(tx, claim, response));
  tx.Commit();  // the order, its audit record, its event and the answer: all of them, or none
  return {response.status, response.body};
}

Response OrderService::Find(Database& database, const std::string& id) const {
  const auto rows = database.Query("SELECT customer, items, total, status FROM orders WHERE id = $1", {id});
  if (rows.empty()) return Problem(404, "there is no such order");
  const auto& row = rows[0];
  return {200, json{{"order_id", id},
                    {"customer", *row[0]},
                    {"items", json::parse(*row[1])},
                    {"total", std::stoll(*row[2])},
                    {"status", *row[3]}}
                   .dump()};
}

}  // namespace example
