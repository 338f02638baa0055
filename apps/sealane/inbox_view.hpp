#pragma once

#include <string>
#include <vector>

#include "ops/inbox_desk.hpp"

namespace sealane::cli {

/// Each as a JSON object on one line.
/// `ok`, `paused` or `holds`.
std::string_view ConsumerStateText(const InboxSummary& summary);
std::string InboxSummaryJson(const InboxSummary& summary);
/// A partition of a consumer, with the command that resumes it where it is stopped.
std::string InboxPositionJson(const std::string& consumer, const InboxPosition& position);
std::string InboxReceiptJson(const InboxReceipt& receipt);
std::string ParkedEventJson(const ParkedEvent& event);
std::vector<std::string> ParkedEventsJson(const std::vector<ParkedEvent>& events);

/// One aligned line each.
std::string InboxSummaryTable(const std::vector<InboxSummary>& summaries, bool color);
std::string InboxPositionTable(const std::vector<InboxSummary>& summaries, bool color);
std::string InboxReceiptTable(const std::vector<InboxReceipt>& receipts, bool color);
std::string ParkedEventTable(const std::vector<ParkedEvent>& events, bool color);

/// How many partitions are stopped.
std::int64_t StoppedPartitions(const InboxSummary& summary);
/// `orders/3 of billing is stopped since ...: topic_recreated: ...`
std::string StoppedText(const std::string& consumer, const InboxPosition& position);
/// What resumes a stopped partition; the operator fills in the reason.
std::string ResumeCommand(const std::string& consumer, const InboxPosition& position);

/// Everything about one, for people.
std::string InboxReceiptDetails(const InboxReceipt& receipt);
std::string ParkedEventDetails(const ParkedEvent& event);

}  // namespace sealane::cli
