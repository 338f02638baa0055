#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sealane/result.hpp"

#include "demo/place.hpp"

namespace sealane::demo {

/// Shell commands that take a broker away and bring it back, for brokers that are not ours.
struct OutageCommands {
  std::string away;
  std::string back;
};

/// Takes the broker away and brings it back: a broker's absence, not a pause that anybody agreed to. Destroying it
/// brings it back.
class Outage {
 public:
  /// A journal is moved out of reach; a Kafka needs commands. Null when there is no way to do it.
  static std::unique_ptr<Outage> For(const Place& place, const std::optional<OutageCommands>& commands);
  virtual ~Outage() = default;

  virtual Status Begin() = 0;
  virtual Status End() = 0;
};

}  // namespace sealane::demo
