#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sealane::demo {

/// A mistake that can be built into the demo, so that everybody can see its verdict turn red.
enum class Plant : std::uint8_t {
  kNone,
  kMarkBeforePublish,         ///< the relay counts a message as delivered before it has sent it
  kEffectOutsideTransaction,  ///< a handler hands its effect to somebody who commits on his own
};
/// `mark-before-publish`, `effect-outside-transaction`.
std::string_view ToString(Plant plant);
std::optional<Plant> ParsePlant(std::string_view text);

/// How long, how fast, and which of the many runs that are possible.
struct Pace {
  std::int64_t seconds = 12;  ///< of shop life; what is broken when scales with it
  std::int64_t rate = 200;    ///< events per second, those that handlers append included
  std::uint64_t seed = 1;
};

/// What is broken on purpose and when, counted from the first order. Follows from the pace alone.
struct Plan {
  using Time = std::chrono::milliseconds;

  Time end{};             ///< the shop closes
  Time poison{};          ///< an order comes that its consumer can never apply, then two changes of it
  Time early{};           ///< the second version of an order comes
  Time early_resolved{};  ///< the first version of it comes
  Time broker_away{};
  Time broker_back{};
  Time relay_killed{};
  Time relay_restarted{};
  Time noise{};                   ///< one tenant orders very much at once
  std::int64_t noisy_orders = 0;  ///< how much
  std::int64_t noisy_rate = 0;    ///< how many events per second of this tenant its rule lets pass

  double orders_per_second = 0;  ///< each becomes two events: the order and its payment
  Time lease{};                  ///< of the relay: what a killed one had is taken over after this
};

Plan PlanFor(const Pace& pace);

}  // namespace sealane::demo
