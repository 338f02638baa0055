#pragma once

#include "sealane/handler.hpp"

#include "cashier.hpp"

namespace payments {

/// What the provider told us on the topic `provider`, as the end of a task or as a webhook, settles payments.
/// The cashier must outlive them.
sealane::Handlers SettlePayments(const Cashier& cashier);

/// What we told the world on the topic `payments` becomes the merchants' report.
sealane::Handlers ReportToMerchants();

}  // namespace payments
