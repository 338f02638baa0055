// Protects the bookkeeping of positions: a lane's position never passes a page that is not done, and tenants that run
// apart are written down only from the moment when it is true.

#include "relay/ledger.hpp"

#include <gtest/gtest.h>

namespace sealane {
namespace {

class LedgerTest : public ::testing::Test {
 protected:
  void SetUp() override { ledger_.Open({.lease = kLane, .positions = {.main = {.cursor = "0"}}}); }

  OpenPage& Begin(const std::string& next, std::size_t entries, FlowId flow = kMainFlow) {
    auto page = std::make_unique<OpenPage>();
    page->page.next = {.cursor = next};
    page->page.entries.resize(entries);
    page->waiting = entries;
    page->flow = flow;
    page->lanes = {kLane};
    pages_.push_back(std::move(page));
    ledger_.Begin(*pages_.back());
    return *pages_.back();
  }
  void Finish(OpenPage& page) {
    page.waiting = 0;
    ledger_.Advance(page);
  }
  LanePositions Written() {
    const auto progress = ledger_.Progress();
    if (!progress.empty()) written_ = progress.front().positions;
    ledger_.MarkWritten();
    return written_;
  }

  static constexpr LaneLease kLane{.lane = 3, .epoch = 7};
  const std::vector<std::string> tenants_ = {"acme"};
  const FlowId apart_ = FlowIdOf(tenants_);
  Ledger ledger_;
  LanePositions written_{.main = {.cursor = "0"}};
  std::vector<std::unique_ptr<OpenPage>> pages_;
};

TEST_F(LedgerTest, NeverPassesAPageThatIsNotDone) {
  OpenPage& first = Begin("1", 2);
  OpenPage& second = Begin("2", 2);
  Finish(second);
  EXPECT_EQ(Written().main.cursor, "0");
  Finish(first);
  EXPECT_EQ(Written().main.cursor, "2");
}

TEST_F(LedgerTest, KeepsThePositionOfAPageThatIsGoneFromMemory) {
  OpenPage& first = Begin("1", 1);
  Finish(Begin("2", 1));
  pages_.pop_back();  // done, freed, and still behind the first
  Finish(first);
  EXPECT_EQ(Written().main.cursor, "2");
}

TEST_F(LedgerTest, MovingOverNothingIsNotWorthAWrite) {
  Begin("1", 0);
  EXPECT_FALSE(ledger_.dirty());
  EXPECT_TRUE(ledger_.moved());
}

TEST_F(LedgerTest, MovingWhereNothingWasAppendedIsNotKeptForLater) {
  OpenPage quiet;
  quiet.page.next = {.cursor = "1"};
  quiet.lanes = {kLane};
  quiet.quiet = true;
  ledger_.Begin(quiet);
  EXPECT_FALSE(ledger_.moved());
  EXPECT_TRUE(ledger_.Progress().empty());
  Finish(Begin("2", 1));
  EXPECT_EQ(Written().main.cursor, "2");
}

TEST_F(LedgerTest, ASplitCountsOnceEverythingBeforeItIsDone) {
  OpenPage& before = Begin("1", 1);
  ledger_.Split({.lanes = {kLane}, .from = kMainFlow, .into = {{.id = apart_, .tenants = tenants_}}});
  Finish(Begin("2", 1));
  Finish(Begin("1a", 1, apart_));
  // The page before the split has events of the tenant that are not done: nothing may be written beyond it.
  EXPECT_EQ(Written(), (LanePositions{.main = {.cursor = "0"}}));
  Finish(before);
  EXPECT_EQ(Written(), (LanePositions{.main = {.cursor = "2"}, .apart = {{tenants_, {.cursor = "1a"}}}}));
}

TEST_F(LedgerTest, AMergedFlowStaysUntilBothSidesHaveComeThere) {
  ledger_.Split({.lanes = {kLane}, .from = kMainFlow, .into = {{.id = apart_, .tenants = tenants_}}});
  OpenPage& late = Begin("5", 1, apart_);
  Finish(Begin("5", 1));
  ledger_.Merge({.lanes = {kLane}, .flow = apart_});
  Finish(Begin("6", 1));
  const LanePositions between = Written();
  EXPECT_EQ(between.main.cursor, "6");
  ASSERT_EQ(between.apart.size(), 1U);
  EXPECT_EQ(between.apart[0].position.cursor, "0") << "what the flow has not finished is repeated, not skipped";
  Finish(late);
  EXPECT_TRUE(Written().apart.empty());
}

TEST_F(LedgerTest, ATenantCanBeSetApartAgainBeforeTheMergeIsOver) {
  ledger_.Split({.lanes = {kLane}, .from = kMainFlow, .into = {{.id = apart_, .tenants = tenants_}}});
  OpenPage& late = Begin("5", 1, apart_);
  Finish(Begin("5", 1));
  ledger_.Merge({.lanes = {kLane}, .flow = apart_});
  Finish(Begin("6", 1));
  ledger_.Split({.lanes = {kLane}, .from = kMainFlow, .into = {{.id = apart_, .tenants = tenants_}}});
  Finish(Begin("7", 1));
  EXPECT_EQ(Written().apart.at(0).position.cursor, "0");
  Finish(late);
  EXPECT_EQ(Written(), (LanePositions{.main = {.cursor = "7"}, .apart = {{tenants_, {.cursor = "6"}}}}));
}

TEST_F(LedgerTest, AnOldEpochIsNobody) {
  EXPECT_TRUE(ledger_.Current(kLane));
  EXPECT_FALSE(ledger_.Current({.lane = 3, .epoch = 6}));
  ledger_.Forget(kLane);
  EXPECT_FALSE(ledger_.Current(kLane));
}

TEST_F(LedgerTest, AClosingLaneIsReadyWhenItIsQuietAndWritten) {
  OpenPage& page = Begin("1", 1);
  ledger_.BeginClosing(kLane);
  EXPECT_TRUE(ledger_.ReadyToRelease().empty());
  Finish(page);
  EXPECT_TRUE(ledger_.ReadyToRelease().empty()) << "its position is not written yet";
  Written();
  EXPECT_EQ(ledger_.ReadyToRelease(), std::vector{kLane});
}

}  // namespace
}  // namespace sealane
