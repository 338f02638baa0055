#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.hpp"
#include "kafka/kafka_probe.hpp"
#include "outbox/migration.hpp"
#include "postgres/doctor.hpp"

namespace sealane::cli {

/// A transaction that is open for longer than this keeps its events, and the vacuum, waiting.
inline constexpr std::chrono::seconds kLongTransaction{300};

/// What facts mean, as pure functions.
std::vector<Finding> JudgeSchema(const std::string& subject, const SchemaState& state);
std::vector<Finding> JudgePostgres(const std::string& subject, const postgres::DoctorFacts& facts);
/// `mechanism`: sasl.mechanism, empty for none.
std::vector<Finding> JudgeKafka(const std::string& subject, const BrokerReport& report, const std::string& mechanism);

/// Whether a librdkafka of this version (`2.0.2`) is older than major.minor.
bool IsOlderThan(std::string_view version, int major, int minor);

}  // namespace sealane::cli
