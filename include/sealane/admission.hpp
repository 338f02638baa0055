#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "sealane/envelope.hpp"
#include "sealane/result.hpp"
#include "sealane/transaction.hpp"

namespace sealane {

/// What an event may measure, in bytes unless said otherwise. Larger is refused at append, with the field's name.
struct Limits {
  std::size_t payload_max = std::size_t{900} << 10;      ///< below the usual 1 MiB of a broker, envelope included
  std::size_t topic_max = 249;                           ///< Kafka's limit; its characters are [A-Za-z0-9._-]
  std::size_t name_max = 255;                            ///< type, tenant, aggregate type, producer, schema id, ...
  std::size_t key_max = 1024;                            ///< key, aggregate id, dedup key, idempotency key
  std::size_t trace_max = 512;                           ///< correlation id, causation id, traceparent, tracestate
  std::size_t headers_max = 64;                          ///< how many
  std::size_t header_bytes_max = std::size_t{16} << 10;  ///< names and values together
};

/// Port: says whether a payload fits the schema of its type and version.
class SchemaCheck {
 public:
  virtual ~SchemaCheck() = default;
  /// kRejected (`schema_mismatch`) with the path inside the payload when it does not fit.
  virtual Status Check(const Envelope& envelope) const = 0;
};

/// Refuses (kRejected, with field()) what must not enter the log: missing fields, text that is not UTF-8 or has a
/// NUL, anything over its limit, a topic no broker takes, versions below 1, a JSON content type on bytes that are not
/// JSON, doubled header names, times outside 1970..9999.
Status CheckAdmission(const Envelope& envelope, const Limits& limits);
Status CheckDedupKey(const std::optional<std::string>& dedup_key, const Limits& limits);
Status CheckAggregateName(const AggregateName& aggregate, const Limits& limits);
Status CheckClaim(const IdempotencyClaim& claim, const Limits& limits);

}  // namespace sealane
