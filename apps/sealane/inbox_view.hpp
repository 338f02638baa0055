#pragma once

#include <string>
#include <vector>

#include "ops/inbox_desk.hpp"

namespace sealane::cli {

/// Each as a JSON object on one line.
std::string InboxSummaryJson(const InboxSummary& summary);
std::string InboxReceiptJson(const InboxReceipt& receipt);
std::string ParkedEventJson(const ParkedEvent& event);
std::vector<std::string> ParkedEventsJson(const std::vector<ParkedEvent>& events);

/// One aligned line each.
std::string InboxSummaryTable(const std::vector<InboxSummary>& summaries, bool color);
std::string InboxReceiptTable(const std::vector<InboxReceipt>& receipts, bool color);
std::string ParkedEventTable(const std::vector<ParkedEvent>& events, bool color);

/// Everything about one, for people.
std::string InboxReceiptDetails(const InboxReceipt& receipt);
std::string ParkedEventDetails(const ParkedEvent& event);

}  // namespace sealane::cli
