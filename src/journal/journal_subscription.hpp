#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "broker/subscription.hpp"
#include "journal/journal.hpp"

namespace sealane {

struct JournalSubscriptionOptions {
  std::string group;                ///< who reads: offsets are remembered under this name
  std::string member;               ///< this reader among the group's; a second one of the same name fences the first
  std::vector<std::string> topics;  ///< those that are not there yet are found when the first message makes them
  /// Others take over after a member was silent for this long.
  std::chrono::milliseconds lease = std::chrono::seconds{10};
  /// How often a member says that it lives and looks for what it gained or is to give back: a small write each time.
  /// Never less often than three times per lease.
  std::chrono::milliseconds keep_every{500};
};

/// Joins a group that reads a journal. Errors are about the options and the file; a journal that is busy for a while
/// shows in health(). The clock must outlive the subscription.
///
/// Commits that are not waited for are written together, within a Poll() soon after. Waiting looks at the file at
/// most every 50 ms, every millisecond while something happens.
///
/// A topic's id is the birth of the journal with the topic's number in it: a copy of the file has the same one. A
/// group joins a partition at its oldest message and stands there until it commits; at offset 0 PartitionFacts::group
/// is empty. OffsetAt() looks at all messages that are older.
Result<std::unique_ptr<Subscription>> OpenJournalSubscription(const JournalOptions& journal,
                                                              JournalSubscriptionOptions options, Clock& clock);

}  // namespace sealane
