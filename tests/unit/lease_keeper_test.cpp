// Protects how relays share lanes where a relay needs all of them, or none: orders that span keys.

#include "relay/lease_keeper.hpp"

#include <gtest/gtest.h>

#include "sealane/clock.hpp"

#include "memory/memory_store.hpp"
#include "relay/lease_board.hpp"
#include "relay/route_options.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

constexpr std::int32_t kLanes = 8;

class LeaseKeeperTest : public ::testing::Test {
 protected:
  void Beat(int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(keeper_.RunOnce(*log_));
      // Nobody works on the lanes here, so those that are to leave are quiet at once.
      for (const LeaseBoard::Held& held : board_.held()) {
        if (!held.leaving) continue;
        ASSERT_TRUE(log_->Release(std::vector{held.lease}));
        board_.Drop(held.lease);
      }
      clock_.Advance(keeper_.interval());
    }
  }

  static RouteOptions Global() {
    RouteOptions options;
    options.order = OrderMode::kGlobal;
    return options;
  }

  ManualClock clock_;
  std::shared_ptr<memory::Database> database_ = memory::MakeDatabase(clock_, std::chrono::seconds{5}, kLanes);
  std::unique_ptr<OutboxLog> log_ = memory::MakeOutboxLog(database_, "main", "relay-1", clock_);
  const RouteOptions options_ = Global();
  LeaseBoard board_{[] {}};
  LeaseKeeper keeper_{options_, board_, clock_};
};

TEST_F(LeaseKeeperTest, AnOrderOverAllKeysNeedsAllLanes) {
  Beat(3);
  EXPECT_EQ(board_.held().size(), static_cast<std::size_t>(kLanes));
}

// The lane that stands for all of them was dropped after an error. Keeping one of the others must not be the end.
TEST_F(LeaseKeeperTest, TheFirstLaneIsTakenAgainAfterItWasLost) {
  Beat(3);
  board_.Drop(board_.held().front().lease);
  Beat(6);
  EXPECT_EQ(board_.held().size(), static_cast<std::size_t>(kLanes));
}

}  // namespace
}  // namespace sealane
