#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "postgres/inbox_session.hpp"

namespace sealane::postgres {

/// The messages that a consumer set aside.
class InboxParked {
 public:
  explicit InboxParked(const InboxSession& session) : session_(session) {}

  Result<InboxLook> Look(bool by_version, std::size_t limit) const;
  Result<std::optional<RetryBatch>> OpenRetry(const std::string& unit, bool by_version,
                                              std::chrono::milliseconds patience) const;
  Result<RetryGroup> OpenRetries(std::span<const std::string> units, bool by_version,
                                 std::chrono::milliseconds patience) const;
  Status SetHold(const std::optional<ConsumerHold>& hold) const;
  Result<InboxCounts> Count(std::int64_t count_max) const;

 private:
  const InboxSession& session_;
};

}  // namespace sealane::postgres
