#pragma once

#include <cstdint>
#include <optional>

#include "sealane/transaction.hpp"

namespace sealane {

// The errors that every store gives in the same words, whatever it found them out with.

Error DuplicateEventId(const EventId& id);
Error DuplicateVersion(const Envelope& envelope);
/// `current` where the store knows it.
Error VersionConflict(const AggregateName& aggregate, std::int64_t expected, std::optional<std::int64_t> current);
Error RequestNotBegun(const IdempotencyClaim& claim);
/// The task's name was used for another request, in the task `earlier`.
Error TaskConflict(const Task& task, const EventId& earlier);

}  // namespace sealane
