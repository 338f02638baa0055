#pragma once

#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "sealane/outbox.hpp"
#include "sealane/random.hpp"

#include "demo/board.hpp"
#include "demo/database.hpp"
#include "demo/order_message.hpp"
#include "demo/place.hpp"
#include "demo/plan.hpp"

namespace sealane::demo {

/// What the shop knows of its own doing: which commits were answered, which transactions it took back, and which of
/// its events are meant to be trouble.
struct ShopNotes {
  std::vector<std::string> committed;    ///< ids of events
  std::vector<std::string> rolled_back;  ///< ids of events
  std::vector<std::string> dead;         ///< ids that no consumer can apply
  std::vector<std::string> behind_dead;  ///< ids of the same key that came later
  std::vector<std::string> early;        ///< ids that were committed before an earlier version
  std::int64_t failing_once = 0;         ///< events whose handler fails the first time
  std::int64_t noisy_orders = 0;
};

/// The producer: changes its orders and appends the events about it, both in one transaction.
///
/// Everything random follows from the seed. Run() is called by one thread; notes() when it has ended.
class Shop {
 public:
  static constexpr std::string_view kNoisyTenant = "noisy";

  Shop(const Place& place, const Plan& plan, std::uint64_t seed, std::unique_ptr<Database> database, Board& board,
       Clock& clock);

  /// One order before all others, so that everybody is at work when the plan begins. From the thread of Run(), or
  /// before it.
  Status PlaceFirst();
  /// Until the plan's end or the stop. An error means that the database did not do what it was asked.
  Status Run(std::stop_token stop);
  const ShopNotes& notes() const { return notes_; }

 private:
  struct Order {
    std::string id;
    std::string tenant;
    std::int64_t version = 0;
  };
  struct Step {
    Plan::Time at;
    Status (Shop::*action)();
  };

  // What happens at a planned time.
  Status SendPoison();
  Status SendSecondVersion();
  Status SendFirstVersion();
  Status MakeNoise();
  // What happens all the time.
  Status DoBusiness();

  Order NewOrder();
  Event EventOf(const Order& order, std::int64_t version, const OrderMessage& message) const;
  /// Writes the order's row and the event in the open transaction; the event's id.
  Result<std::string> Write(const Order& order, std::int64_t version, const OrderMessage& message);
  /// The same in a transaction of its own.
  Result<std::string> Commit(const Order& order, std::int64_t version, const OrderMessage& message);
  std::int64_t SomeCents() { return 100 + static_cast<std::int64_t>(random_.Below(20'000)); }
  bool OneIn(std::uint64_t count) { return random_.Below(count) == 0; }

  const Place& place_;
  const Plan plan_;
  SeededRandom random_;
  std::unique_ptr<Database> database_;
  Board& board_;
  Clock& clock_;
  const Outbox outbox_;
  std::vector<Order> orders_;
  std::int64_t placed_ = 0;
  ShopNotes notes_;
};

}  // namespace sealane::demo
