#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sealane/result.hpp"

namespace sealane {

enum class BrokerKind : std::uint8_t { kKafka, kJournal, kHttp, kStdout, kNull };

/// Which destination a person named.
struct BrokerTarget {
  BrokerKind kind = BrokerKind::kNull;
  std::string location;  ///< `host:port,host:port`, the journal's path, or the whole URL for HTTP
};

/// Reads `kafka://host:port,...`, `journal:PATH`, `http://...`, `https://...`, `stdout:` or `null:`. Errors are
/// kMisconfigured (`bad_broker_url`) and show no password.
Result<BrokerTarget> ParseBrokerUrl(std::string_view url);

/// The URL with the absolute path of its file when it names one, as FixStoreUrl() does it.
std::string FixBrokerUrl(const std::string& url);

}  // namespace sealane
