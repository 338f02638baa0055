#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "demo/database.hpp"
#include "demo/place.hpp"
#include "demo/shop.hpp"
#include "demo/topic_watch.hpp"

namespace sealane::demo {

/// A row of the outbox.
struct CommittedEvent {
  std::int64_t seq = 0;
  std::string id;
  std::string topic;  ///< `orders` or `payments`
  std::string key;
  std::string tenant;
  std::int64_t version = 0;
  std::string hash;
  Timestamp appended_at{};
};

/// A row in a consumer's own table.
struct Effect {
  std::int64_t place = 0;  ///< grows with time
  std::string id;          ///< of the event
  std::string key;
  std::int64_t version = 0;
  std::string decision = {};
};

/// What an attempt writes as its decision that fails afterwards. Nobody should ever read it.
inline constexpr std::string_view kFailedAttempt = "failed attempt";

/// A row of what consumers set aside.
struct SetAside {
  std::string consumer;
  std::string id;
  std::string state;
};

/// What an order costs and what was paid for it.
struct Balance {
  std::string order;
  std::int64_t ordered = 0;
  std::int64_t paid = 0;
  std::int64_t changes = 0;  ///< transactions of the shop that changed it
};

/// What was done to the system, as far as the verdict speaks of it.
struct Mischief {
  std::int64_t relay_kills = 0;
  std::optional<std::chrono::milliseconds> broker_away = {};  ///< empty: it could not be taken away
  std::int64_t handler_failures = 0;                          ///< after the effect was written
  std::int64_t noisy_rate = 0;                                ///< events/s that the noisy tenant's rule lets pass
};

/// Everything the verdict is made of: counted in the store, in the topics and in the consumers' tables, by plain SQL
/// and by reading. No counter of a part that is judged is among it.
struct Evidence {
  ShopNotes notes;
  Mischief mischief;
  std::vector<CommittedEvent> committed;
  std::vector<Delivered> deliveries;
  std::vector<Effect> payments;   ///< of `orders`
  std::vector<Effect> approvals;  ///< of `payments`
  std::vector<SetAside> set_aside;
  std::vector<Balance> balances;
  std::int64_t unread = 0;  ///< messages that consumers have not acknowledged to the broker
};

/// Reads what is in the store. Topics and consumers come out under the names the shop has for them.
Status ReadStore(Database& database, const Place& place, Evidence& evidence);

/// The same as numbers, cheap enough for five times a second.
Result<Counts> CountStore(Database& database, const Dialect& dialect);

}  // namespace sealane::demo
