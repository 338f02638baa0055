#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/finding.hpp"

namespace sealane::cli {

/// Whether what is sent to this host stays on this machine: a socket's path, `localhost`, 127.0.0.0/8 or ::1.
bool StaysHere(std::string_view host);

/// Passwords and payloads on their way to PostgreSQL. `hosts`: as libpq takes them, separated by commas.
std::vector<Finding> JudgePostgresTransport(const std::string& subject, std::string_view hosts,
                                            const std::string& sslmode);

/// The same for Kafka. `url`: `kafka://host:port,...`; the others are properties of librdkafka.
std::vector<Finding> JudgeKafkaTransport(const std::string& subject, std::string_view url,
                                         const std::string& security_protocol, const std::string& verification,
                                         const std::string& host_check);

}  // namespace sealane::cli
