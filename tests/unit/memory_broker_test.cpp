// Protects the broker that other tests rely on: its scripted failures strike exactly where they were asked for, and
// it keeps the publisher's contract while it fails.

#include "memory/memory_broker.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/courier.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

class MemoryBrokerTest : public ::testing::Test {
 protected:
  MemoryBroker broker_;
  const std::unique_ptr<Publisher> publisher_ = broker_.Connect();
  Courier courier_{*publisher_};
};

TEST_F(MemoryBrokerTest, FailsTheNthMessageOnly) {
  broker_.FailNth(2, {.failure = FailureClass::kRejected, .code = "too_bad"});
  for (const auto* key : {"a", "b", "c"}) courier_.Send("orders", key, key);
  courier_.CollectAll();
  EXPECT_EQ(courier_.DeliveryOf(1).status, DeliveryStatus::kPersisted);
  EXPECT_EQ(courier_.DeliveryOf(2).status, DeliveryStatus::kNotPersisted);
  EXPECT_EQ(courier_.DeliveryOf(2).failure, FailureClass::kRejected);
  EXPECT_EQ(courier_.DeliveryOf(2).code, "too_bad");
  EXPECT_EQ(courier_.DeliveryOf(3).status, DeliveryStatus::kPersisted);
  EXPECT_EQ(broker_.record_count(), 2U);
  EXPECT_EQ(broker_.arrived_count(), 3U);
}

TEST_F(MemoryBrokerTest, FailsAKeyAsOftenAsAskedAndHoldsBackWhatFollows) {
  broker_.FailKey("bad", {.failure = FailureClass::kRetry}, 2);
  courier_.Send("orders", "bad", "1");
  const auto behind = courier_.Send("orders", "bad", "2");
  courier_.Send("orders", "good", "1");
  courier_.CollectAll();
  EXPECT_EQ(courier_.DeliveryOf(1).failure, FailureClass::kRetry);
  EXPECT_EQ(courier_.DeliveryOf(behind).code, "held_back");
  courier_.Send("orders", "bad", "1");
  courier_.CollectAll();
  EXPECT_TRUE(broker_.ValuesOf("orders", "bad").empty());
  courier_.Send("orders", "bad", "1");
  courier_.Send("orders", "bad", "2");
  courier_.CollectAll();
  EXPECT_THAT(broker_.ValuesOf("orders", "bad"), ElementsAre("1", "2"));
  EXPECT_THAT(broker_.ValuesOf("orders", "good"), ElementsAre("1"));
}

TEST_F(MemoryBrokerTest, LosesAnAcknowledgement) {
  broker_.FailNth(1,
                  {.status = DeliveryStatus::kPossiblyPersisted, .failure = FailureClass::kOutage, .persist = true});
  courier_.Send("orders", "a", "1");
  courier_.CollectAll();
  EXPECT_EQ(courier_.DeliveryOf(1).status, DeliveryStatus::kPossiblyPersisted);
  EXPECT_THAT(broker_.ValuesOf("orders", "a"), ElementsAre("1"));
}

TEST_F(MemoryBrokerTest, KeepsDeliveriesBackUntilTheyAreReleased) {
  broker_.HoldDeliveries();
  courier_.Send("orders", "a", "1");
  courier_.Send("orders", "a", "2");
  courier_.Send("orders", "a", "3");
  courier_.Collect(milliseconds{0});
  EXPECT_TRUE(broker_.AwaitRecords(3, milliseconds{0}));
  EXPECT_TRUE(courier_.deliveries().empty());
  broker_.ReleaseDeliveries(1);
  courier_.Collect(milliseconds{0});
  EXPECT_EQ(courier_.deliveries().size(), 1U);
  publisher_->Abandon();
  courier_.CollectAll();
  EXPECT_EQ(courier_.DeliveryOf(1).status, DeliveryStatus::kPersisted);
  EXPECT_EQ(courier_.DeliveryOf(2).status, DeliveryStatus::kPossiblyPersisted);
  EXPECT_EQ(courier_.DeliveryOf(3).code, "abandoned");
  broker_.ReleaseDeliveries();
  courier_.Send("orders", "a", "4");
  courier_.CollectAll();
  EXPECT_EQ(courier_.DeliveryOf(4).status, DeliveryStatus::kPersisted);
}

TEST_F(MemoryBrokerTest, ShowsTheOutageItWasTold) {
  broker_.BeginOutage(Error(ErrorKind::kMisconfigured, "login_refused", "wrong password"));
  EXPECT_EQ(publisher_->health().state, PublisherHealth::State::kMisconfigured);
  EXPECT_EQ(publisher_->health().problem->code(), "login_refused");
  broker_.EndOutage();
  EXPECT_EQ(publisher_->health().state, PublisherHealth::State::kReady);
}

TEST_F(MemoryBrokerTest, IsSharedByPublishers) {
  const auto other = broker_.Connect();
  Courier second(*other);
  courier_.Send("orders", "a", "1");
  second.Send("orders", "b", "2");
  courier_.CollectAll();
  second.CollectAll();
  EXPECT_EQ(broker_.records().size(), 2U);
}

}  // namespace
}  // namespace sealane
