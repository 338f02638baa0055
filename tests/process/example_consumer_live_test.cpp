// Protects examples/consumer, which readers copy: it applies each event once on every pair of store and broker, and
// says what to do when something is wrong.

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/consume_place.hpp"
#include "support/kafka_cluster.hpp"

namespace sealane::testing {
namespace {

using ::testing::HasSubstr;

class ExampleConsumer : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgres_kafka") SEALANE_REQUIRE_KAFKA();
    place_ = std::make_unique<ConsumePlace>(GetParam());
  }
  CommandResult Run(const std::string& store) const {
    return ChildProcess({SEALANE_TEST_EXAMPLE_CONSUMER, store, place_->broker_url(), place_->topic(), "caught-up"},
                        {}, place_->folder())
        .Finish();
  }
  std::unique_ptr<ConsumePlace> place_;
};

TEST_P(ExampleConsumer, BillsEachOrderOnce) {
  place_->Execute("CREATE TABLE bills (order_id TEXT, details TEXT)");
  std::vector<Envelope> orders = ChangesOf(20, 1);
  for (Envelope& order : orders) order.type = "OrderPlaced";
  orders.push_back(ChangeOf("other", 1));  // of a type without a handler
  place_->Publish(orders);
  place_->Publish(orders);
  const CommandResult run = Run(place_->store_url());
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out, "20 bills\n");
  EXPECT_EQ(place_->Number("SELECT count(*) FROM bills"), 20);
  EXPECT_EQ(place_->Number("SELECT count(DISTINCT order_id) FROM bills"), 20);
  EXPECT_EQ(place_->Number("SELECT count(*) FROM bills WHERE details = '{\"version\":1}'"), 20);
}

TEST_P(ExampleConsumer, SaysHowToMakeTheTables) {
  std::unique_ptr<ScratchDatabase> database;
  std::string store = "sqlite:" + place_->folder() + "/empty.db";
  if (GetParam() == "postgres_kafka") {
    database = std::make_unique<ScratchDatabase>();
    store = database->url();
  } else {
    SqliteHandle(place_->folder() + "/empty.db").Execute("CREATE TABLE own (id INTEGER)");
  }
  const CommandResult run = Run(store);
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("sealane migrate up"));
}

INSTANTIATE_TEST_SUITE_P(Places, ExampleConsumer, ::testing::Values("sqlite_journal", "postgres_kafka"),
                         [](const auto& place) { return place.param; });

}  // namespace
}  // namespace sealane::testing
