#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "sealane/clock.hpp"

#include "config/settings.hpp"
#include "doctor/finding.hpp"

namespace sealane::cli {

/// Looks at a store: can it be reached, are its tables right, may this user relay, does something hold it up?
std::vector<Finding> ExamineStore(const std::string& name, const Settings& store, Clock& clock);
/// Looks at a broker: is its section right, does it answer? Waits at most `limit`.
std::vector<Finding> ExamineBroker(const std::string& name, const Settings& broker, std::chrono::milliseconds limit,
                                   Clock& clock);

}  // namespace sealane::cli
