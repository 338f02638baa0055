#include "demo/order_message.hpp"

#include <nlohmann/json.hpp>

#include "output.hpp"

namespace sealane::demo {

std::string ToPayload(const OrderMessage& message) {
  cli::JsonDocument payload;
  payload.Text("order", message.order).Integer("cents", message.cents);
  if (message.fails_once) payload.Truth("fails_once", true);
  return payload.Finish();
}

Result<OrderMessage> OrderMessageFrom(std::string_view payload) {
  const auto json = nlohmann::json::parse(payload, nullptr, false);
  if (!json.is_object() || !json.contains("order") || !json["order"].is_string() || !json.contains("cents") ||
      !json["cents"].is_number_integer()) {
    return Error(ErrorKind::kRejected, "unreadable_order", "the payload is no order");
  }
  return OrderMessage{.order = json["order"].get<std::string>(),
                      .cents = json["cents"].get<std::int64_t>(),
                      .fails_once = json.contains("fails_once")};
}

}  // namespace sealane::demo
