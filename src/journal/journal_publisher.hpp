#pragma once

#include <memory>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "broker/publisher.hpp"
#include "journal/journal.hpp"

namespace sealane {

/// A publisher into a journal, which is made when it is not there.
///
/// Submit() keeps, Collect() writes everything that is kept in one synchronous transaction. When others write all the
/// time, the disk is full or the file cannot be used, messages wait inside and health() tells. Rejected are only
/// messages larger than JournalOptions::message_max_bytes (`message_too_large`) and those without a topic
/// (`invalid_topic`); what was submitted behind them for the same key comes back as `held_back`.
Result<std::unique_ptr<Publisher>> OpenJournalPublisher(const JournalOptions& options, Clock& clock);

}  // namespace sealane
