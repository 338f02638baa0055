#pragma once

#include <chrono>
#include <functional>

namespace sealane::testing {

/// Waits for something that will be so soon; false when it is not within the limit.
bool Eventually(const std::function<bool()>& so, std::chrono::seconds limit = std::chrono::seconds{60});

}  // namespace sealane::testing
