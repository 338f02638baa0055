#pragma once

#include <cstdlib>
#include <string>

namespace example {

/// `cpq.quotes`, `cpq.orders`, `cpq.tasks`, or with another beginning where CPQ_PREFIX says so.
inline std::string TopicOf(const std::string& what) {
  const char* const prefix = std::getenv("CPQ_PREFIX");
  return (prefix == nullptr ? "cpq" : prefix) + ("." + what);
}

}  // namespace example
