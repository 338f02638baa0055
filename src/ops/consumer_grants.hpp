#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/dead_letters.hpp"

namespace sealane {

/// A database role that may work as a consumer.
struct ConsumerGrant {
  std::string consumer;
  std::string role;
  Timestamp granted_at{};
};

/// Port: which roles of the database server may work as which consumer, for stores that have roles. The login that
/// opens a new consumer first is granted it by that. Every change and its audit record commit together.
class ConsumerGrants {
 public:
  virtual ~ConsumerGrants() = default;

  /// By consumer and role, of one consumer or of all.
  virtual Result<std::vector<ConsumerGrant>> List(const std::optional<std::string>& consumer) = 0;
  /// `consumer.grant` in the audit trail; the consumer need not exist yet. False: it was granted already. kRejected
  /// (`unknown_role`) when the server has no such role.
  virtual Result<bool> Grant(const std::string& consumer, const std::string& role, const OperatorAction& why) = 0;
  /// `consumer.revoke` in the audit trail. False: it was not granted.
  virtual Result<bool> Revoke(const std::string& consumer, const std::string& role, const OperatorAction& why) = 0;
};

}  // namespace sealane
