#include "support/eventually.hpp"

#include <thread>

namespace sealane::testing {

bool Eventually(const std::function<bool()>& so, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!so()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  return true;
}

}  // namespace sealane::testing
