#include "doctor/transport.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace sealane::cli {
namespace {

using enum Finding::Level;

std::string Lowered(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lowered;
}

/// The first of these hosts that is another machine; empty: all are this one.
std::string FirstElsewhere(std::string_view hosts, bool with_ports) {
  while (!hosts.empty()) {
    const std::size_t comma = std::min(hosts.find(','), hosts.size());
    std::string_view host = hosts.substr(0, comma);
    hosts.remove_prefix(std::min(comma + 1, hosts.size()));
    if (with_ports && host.starts_with('[')) {
      host = host.substr(1, host.find(']') - 1);
    } else if (with_ports) {
      host = host.substr(0, host.find(':'));
    }
    if (!StaysHere(host)) return std::string(host);
  }
  return {};
}

}  // namespace

bool StaysHere(std::string_view host) {
  return host.empty() || host.starts_with('/') || host.starts_with('@') || host.starts_with("127.") ||
         host == "::1" || Lowered(host) == "localhost";
}

std::vector<Finding> JudgePostgresTransport(const std::string& subject, std::string_view hosts,
                                            const std::string& sslmode) {
  const std::string host = FirstElsewhere(hosts, false);
  if (host.empty() || sslmode == "verify-full") return {};
  const bool maybe_plain = sslmode == "disable" || sslmode == "allow" || sslmode == "prefer" || sslmode.empty();
  return {{kNotice, "store_not_verified", subject,
           maybe_plain ? "payloads and passwords may cross the network in plain text"
                       : "it is not verified that this is the right server",
           fmt::format("sslmode is {} for host {}", sslmode.empty() ? "not set" : sslmode, host),
           "add sslmode=verify-full&sslrootcert=/path/to/ca.pem to store.url"}};
}

std::vector<Finding> JudgeKafkaTransport(const std::string& subject, std::string_view url,
                                         const std::string& security_protocol, const std::string& verification,
                                         const std::string& host_check) {
  if (const std::size_t scheme = url.find("://"); scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  const std::string host = FirstElsewhere(url.substr(0, url.find('/')), true);
  if (host.empty()) return {};
  const std::string protocol = Lowered(security_protocol);
  if (protocol != "ssl" && protocol != "sasl_ssl") {
    return {{kNotice, "kafka_without_tls", subject, "payloads and passwords cross the network in plain text",
             fmt::format("security.protocol is {} for host {}", protocol.empty() ? "plaintext" : protocol, host),
             "set \"security.protocol\" to SSL or SASL_SSL in [broker.kafka], and \"ssl.ca.location\""}};
  }
  if (Lowered(verification) == "false" || Lowered(host_check) == "none") {
    return {{kNotice, "broker_not_verified", subject, "it is not verified that these are the right brokers",
             Lowered(verification) == "false" ? "enable.ssl.certificate.verification is false"
                                              : "ssl.endpoint.identification.algorithm is none",
             "remove that property from [broker.kafka], and set \"ssl.ca.location\""}};
  }
  return {};
}

}  // namespace sealane::cli
