#pragma once

#include "sealane/handler.hpp"

#include "payment.hpp"

namespace payments {

/// Books a captured payment: the provider owes us its amount; we owe the merchant that without our fee.
void PostCapture(sealane::HandlerTransaction& tx, const Payment& payment);

/// Prints the balance of each account; false when the books do not balance.
bool PrintBalance(sealane::HandlerTransaction& tx);

}  // namespace payments
