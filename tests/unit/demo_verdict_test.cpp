// Protects the verdict of `sealane demo`: each equation, broken in made-up evidence, turns its finding red and no
// other. A payment has an event of its own, so a payment too many or too few breaks `atomic` as well.

#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "demo/verdict.hpp"

namespace sealane::demo {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Timestamp kStart{std::chrono::seconds{1'700'000'000}};

/// A run of two orders that went well, a poisoned one and a noisy tenant, put together row by row.
class VerdictTest : public ::testing::Test {
 protected:
  VerdictTest() {
    Order("o-1", 1);
    Order("o-1", 2);
    Order("o-2", 1);
    evidence_.notes.rolled_back = {"never"};
    evidence_.notes.dead = {Commit("orders", "o-poison", 1, "amber", true)};
    evidence_.notes.behind_dead = {Commit("orders", "o-poison", 2, "amber", true)};
    Park("orders o-poison 1", "DEAD");
    Park("orders o-poison 2", "RECEIVED");
    evidence_.balances.push_back({"o-poison", 499, 0, 2});
    // Version 2 comes first, and takes effect second.
    Order("o-early", 2);
    Order("o-early", 1);
    evidence_.notes.early = {"orders o-early 2"};
    for (auto* effects : {&evidence_.payments, &evidence_.approvals}) {
      std::swap(*(effects->end() - 1), *(effects->end() - 2));
    }
    noisy_ = true;
    Order("n-1", 1);
    Order("n-2", 1);
    noisy_ = false;
    Order("o-3", 1);
  }

  /// The names of what does not hold.
  std::vector<std::string> Red() const {
    std::vector<std::string> red;
    for (const Finding& finding : Judge(evidence_).findings) {
      EXPECT_EQ(finding.holds, finding.problems.empty()) << finding.name;
      if (!finding.holds) red.push_back(finding.name);
    }
    EXPECT_EQ(Judge(evidence_).holds(), red.empty());
    return red;
  }

  /// An order's change with everything that follows from it.
  void Order(const std::string& key, std::int64_t version) {
    const std::string tenant = noisy_ ? std::string(Shop::kNoisyTenant) : "amber";
    const std::string order = Commit("orders", key, version, tenant, true);
    const std::string payment = Commit("payments", key, version, tenant, false);
    evidence_.payments.push_back({++place_, order, key, version});
    evidence_.approvals.push_back({++place_, payment, key, version});
    Balance* balance = FindBalance(key);
    if (balance == nullptr) balance = &evidence_.balances.emplace_back(Balance{key, 0, 0, 0});
    balance->ordered += 100;
    balance->paid += 100;
    ++balance->changes;
  }

  /// An event in the outbox that was delivered twice.
  std::string Commit(const std::string& topic, const std::string& key, std::int64_t version,
                     const std::string& tenant, bool by_shop) {
    const std::string id = fmt::format("{} {} {}", topic, key, version);
    const Timestamp appended = kStart + milliseconds{10 * ++seq_};
    evidence_.committed.push_back({seq_, id, topic, key, tenant, version, "hash of " + id, appended});
    if (by_shop) evidence_.notes.committed.push_back(id);
    for (int i = 0; i < 2; ++i) {
      evidence_.deliveries.push_back(
          {topic, 0, ++offset_, appended + milliseconds{noisy_ ? 500 : 1}, id, "hash of " + id});
    }
    return id;
  }

  void Park(const std::string& id, const std::string& state) {
    evidence_.set_aside.push_back({"payments", id, state});
  }

  Balance* FindBalance(const std::string& order) {
    for (Balance& balance : evidence_.balances) {
      if (balance.order == order) return &balance;
    }
    return nullptr;
  }
  void EraseDeliveries(const std::string& id, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto found = std::find_if(evidence_.deliveries.begin(), evidence_.deliveries.end(),
                                      [&](const Delivered& delivery) { return delivery.id == id; });
      ASSERT_NE(found, evidence_.deliveries.end());
      evidence_.deliveries.erase(found);
    }
  }
  void EraseEffect(std::vector<Effect>& effects, const std::string& id) {
    ASSERT_EQ(std::erase_if(effects, [&](const Effect& effect) { return effect.id == id; }), 1U);
  }
  /// As if the event had never been appended: with its deliveries and what followed from it.
  void ErasePaymentEvent(const std::string& id) {
    ASSERT_EQ(std::erase_if(evidence_.committed, [&](const CommittedEvent& event) { return event.id == id; }), 1U);
    EraseDeliveries(id, 2);
    EraseEffect(evidence_.approvals, id);
  }

  Evidence evidence_;
  bool noisy_ = false;
  std::int64_t seq_ = 0;
  std::int64_t offset_ = 0;
  std::int64_t place_ = 0;
};

TEST_F(VerdictTest, IsGreenWhenEverythingAddsUp) {
  EXPECT_THAT(Red(), IsEmpty());
  EXPECT_EQ(Judge(evidence_).findings.size(), 7U);
}

TEST_F(VerdictTest, IsRedWhenACommittedEventIsNotInTheOutbox) {
  evidence_.notes.committed.emplace_back("promised");
  EXPECT_THAT(Red(), ElementsAre("atomic"));
}

TEST_F(VerdictTest, IsRedWhenARolledBackEventIsSomewhere) {
  evidence_.notes.rolled_back.emplace_back("orders o-1 1");
  EXPECT_THAT(Red(), ElementsAre("atomic"));
}

TEST_F(VerdictTest, IsRedWhenARowChangedWithoutAnEvent) {
  ++FindBalance("o-2")->changes;
  EXPECT_THAT(Red(), ElementsAre("atomic"));
}

TEST_F(VerdictTest, IsRedWhenAnEventIsThereThatNobodyCommitted) {
  std::erase(evidence_.notes.committed, "orders o-2 1");
  EXPECT_THAT(Red(), ElementsAre("atomic"));
}

TEST_F(VerdictTest, IsRedWhenAHandlersEventIsNotInTheOutbox) {
  ErasePaymentEvent("payments o-1 2");
  EXPECT_THAT(Red(), ElementsAre("atomic")) << "everything else agrees about the events that are there";
  EXPECT_THAT(Judge(evidence_).findings[0].problems.at(0), HasSubstr("payments o-1 version 2"));
}

TEST_F(VerdictTest, IsRedWhenAHandlersEventIsInTheOutboxTwice) {
  CommittedEvent again = *std::find_if(evidence_.committed.begin(), evidence_.committed.end(),
                                       [](const CommittedEvent& event) { return event.id == "payments o-3 1"; });
  again.id = "payments o-3 1 again";
  evidence_.committed.push_back(again);
  for (int i = 0; i < 2; ++i) {
    evidence_.deliveries.push_back(
        {again.topic, 0, ++offset_, again.appended_at + milliseconds{1}, again.id, again.hash});
  }
  evidence_.approvals.push_back({++place_, again.id, again.key, again.version});
  EXPECT_THAT(Red(), ElementsAre("atomic")) << "everything else agrees about the events that are there";
  EXPECT_THAT(Judge(evidence_).findings[0].problems.at(0), HasSubstr("payments o-3 version 1"));
}

TEST_F(VerdictTest, IsRedWhenAnEventIsLost) {
  EraseDeliveries("orders o-1 2", 2);
  EXPECT_THAT(Red(), ElementsAre("delivered"));
  EXPECT_THAT(Judge(evidence_).findings[1].problems.at(0), HasSubstr("1 lost on the way: orders o-1 version 2"));
}

TEST_F(VerdictTest, IsRedWhenAnEventIsInvented) {
  evidence_.deliveries.push_back({"orders", 0, ++offset_, kStart, "invented", ""});
  EXPECT_THAT(Red(), ElementsAre("delivered"));
}

TEST_F(VerdictTest, IsRedWhenBytesChangeOnTheWay) {
  evidence_.deliveries.back().hash = "another";
  EXPECT_THAT(Red(), ElementsAre("delivered"));
}

TEST_F(VerdictTest, IsRedWhenNothingWasRepeatedThatShouldBe) {
  EraseDeliveries("orders o-2 1", 1);
  EXPECT_THAT(Red(), ElementsAre("repeated"));
}

TEST_F(VerdictTest, IsRedWhenConsumersHaveNotReadTheRepetitions) {
  evidence_.unread = 1;
  EXPECT_THAT(Red(), ElementsAre("repeated"));
}

TEST_F(VerdictTest, IsRedWhenAnEffectHappenedTwice) {
  evidence_.approvals.push_back({++place_, "payments o-2 1", "o-2", 1});
  EXPECT_THAT(Red(), ElementsAre("repeated", "applied"));
}

TEST_F(VerdictTest, IsRedWhenAPaymentHappenedTwice) {
  evidence_.payments.push_back({++place_, "orders o-2 1", "o-2", 1});
  EXPECT_THAT(Red(), ElementsAre("atomic", "repeated", "applied"));
}

TEST_F(VerdictTest, IsRedWhenOneEffectIsDoubledAndAnotherMissing) {
  EraseEffect(evidence_.approvals, "payments o-1 1");
  evidence_.approvals.push_back({++place_, "payments o-2 1", "o-2", 1});
  EXPECT_THAT(Red(), ElementsAre("applied")) << "the sums alone would agree";
}

TEST_F(VerdictTest, IsRedWhenAnEffectIsMissing) {
  EraseEffect(evidence_.approvals, "payments o-2 1");
  EXPECT_THAT(Red(), ElementsAre("applied"));
}

TEST_F(VerdictTest, IsRedWhenAPaymentIsMissing) {
  EraseEffect(evidence_.payments, "orders o-2 1");
  EXPECT_THAT(Red(), ElementsAre("atomic", "applied"));
}

TEST_F(VerdictTest, IsRedWhenWhatWasSetAsideHadItsEffect) {
  evidence_.payments.push_back({++place_, "orders o-poison 1", "o-poison", 1});
  EXPECT_THAT(Red(), ElementsAre("atomic", "repeated", "applied"));
}

TEST_F(VerdictTest, IsRedWhenTheEffectOfAFailedAttemptIsThere) {
  evidence_.payments[2].decision = kFailedAttempt;
  EXPECT_THAT(Red(), ElementsAre("applied")) << "it is the only effect of its event, and the sums agree";
  EXPECT_THAT(Judge(evidence_).findings[3].problems.at(0), HasSubstr("orders o-2 version 1"));
}

TEST_F(VerdictTest, IsRedWhenAHandlerDidNotFailThatShould) {
  evidence_.notes.failing_once = 2;
  evidence_.mischief.handler_failures = 1;
  EXPECT_THAT(Red(), ElementsAre("applied"));
  evidence_.mischief.handler_failures = 2;
  EXPECT_THAT(Red(), IsEmpty());
}

TEST_F(VerdictTest, IsRedWhenMoreWasPaidThanOrdered) {
  FindBalance("o-1")->paid += 100;
  EXPECT_THAT(Red(), ElementsAre("applied"));
}

TEST_F(VerdictTest, IsRedWhenATopicHasAKeyOutOfOrder) {
  for (Delivered& delivery : evidence_.deliveries) {
    if (delivery.id == "orders o-1 2") delivery.offset = 0;
  }
  EXPECT_THAT(Red(), ElementsAre("ordered"));
}

TEST_F(VerdictTest, IsRedWhenEffectsOfAKeyAreOutOfOrder) {
  std::swap(evidence_.payments[0], evidence_.payments[1]);
  EXPECT_THAT(Red(), ElementsAre("ordered"));
}

TEST_F(VerdictTest, IsRedWhenTheEarlyEventDidNotComeEarly) {
  evidence_.notes.early = {"orders o-1 1"};
  EXPECT_THAT(Red(), ElementsAre("ordered"));
}

TEST_F(VerdictTest, IsRedWhenAnythingElseIsSetAside) {
  EraseEffect(evidence_.payments, "orders o-3 1");
  ErasePaymentEvent("payments o-3 1");
  Park("orders o-3 1", "FAILED");
  EXPECT_THAT(Red(), ElementsAre("parked"));
}

TEST_F(VerdictTest, IsRedWhenThePoisonIsNotSetAside) {
  std::erase_if(evidence_.set_aside, [](const SetAside& parked) { return parked.state == "DEAD"; });
  EXPECT_THAT(Red(), ElementsAre("applied", "parked"));
}

TEST_F(VerdictTest, IsRedWhenOthersWaitAsLongAsTheNoisyTenant) {
  for (Delivered& delivery : evidence_.deliveries) {
    if (delivery.id.find("o-3") != std::string::npos) delivery.published_at += milliseconds{800};
  }
  EXPECT_THAT(Red(), ElementsAre("fair"));
}

TEST_F(VerdictTest, IsRedWithoutAnybodyToCompareTheNoisyTenantWith) {
  for (CommittedEvent& event : evidence_.committed) {
    if (event.key == "o-3") event.appended_at = kStart;
  }
  EXPECT_THAT(Red(), ElementsAre("fair"));
}

}  // namespace
}  // namespace sealane::demo
