#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "sealane/random.hpp"

#include "relay/route_options.hpp"

namespace sealane {

/// What to do with an event after its delivery is known.
struct Verdict {
  enum class Kind : std::uint8_t {
    kDone,    ///< published
    kResend,  ///< not the event's fault: the same message again
    kPark,    ///< set aside
    kWait,    ///< its topic does not exist: it waits for that, and has not failed
  };
  Kind kind = Kind::kDone;
  ParkedState state = ParkedState::kFailed;                   ///< with kPark
  std::optional<std::chrono::milliseconds> retry_after = {};  ///< with kPark and kFailed
};

/// The most consequential decision of the relay, without any I/O. `attempts` counts this one.
Verdict Judge(const Delivery& delivery, std::int32_t attempts, const FailurePolicy& policy, Random& random);

}  // namespace sealane
