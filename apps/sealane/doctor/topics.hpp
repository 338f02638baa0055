#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "kafka/kafka_probe.hpp"

namespace sealane::cli {

/// The topics that routes to this broker write to, as far as that can be known: those that the configuration names,
/// and those of the newest events of the stores that can be read.
std::vector<std::string> ExpectedTopics(const Config& config, const std::string& broker,
                                        const std::set<std::string>& readable_stores);

/// What the facts about topics mean. `payload_max`: the largest payload that the outbox accepts.
std::vector<Finding> JudgeTopics(const std::string& subject, const BrokerReport& report, std::size_t payload_max);

/// What it means that consumers are behind.
std::vector<Finding> JudgeLag(const std::string& subject, const std::vector<GroupLag>& groups);

}  // namespace sealane::cli
