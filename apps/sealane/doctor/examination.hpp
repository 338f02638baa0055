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

/// What the outbox and its routes ask of a broker.
struct BrokerDemands {
  std::vector<std::string> topics = {};
  std::vector<std::string> consumers = {};  ///< that may read from it
  std::size_t payload_max = 0;
};
/// Looks at a broker: is its section right, does it answer, does it take what will be sent? Waits at most `limit`.
std::vector<Finding> ExamineBroker(const std::string& name, const Settings& broker, const BrokerDemands& demands,
                                   std::chrono::milliseconds limit, Clock& clock);

}  // namespace sealane::cli
