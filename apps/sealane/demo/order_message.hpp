#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sealane/result.hpp"

namespace sealane::demo {

/// What the payload of every event of the shop says.
struct OrderMessage {
  std::string order;        ///< `o-17`
  std::int64_t cents = 0;   ///< of this change alone; less than nothing is what no consumer takes
  bool fails_once = false;  ///< its handler fails the first time, after it wrote its effect
};

std::string ToPayload(const OrderMessage& message);
/// kRejected (`unreadable_order`).
Result<OrderMessage> OrderMessageFrom(std::string_view payload);

}  // namespace sealane::demo
