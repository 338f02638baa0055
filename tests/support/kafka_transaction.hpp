#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sealane::testing {

enum class TransactionEnd : std::uint8_t { kCommit, kAbort };

/// Sends the values to a partition in one transaction and ends it. Its end takes an offset of the partition, as does
/// every value, whether it can be read or not.
void SendTransaction(const std::string& url, const std::string& topic, std::int32_t partition,
                     const std::vector<std::string>& values, TransactionEnd end);

}  // namespace sealane::testing
