// What every store promises about keys that are taken once: true for the first committed transaction that asks, false
// for all others, whatever rolled back or waited meanwhile, and whichever consumer asks.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "sealane/once.hpp"

#include "inbox/caused_transaction.hpp"
#include "support/inbox_fixture.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;

class OnceKeyContract : public ::testing::TestWithParam<std::string> {
 protected:
  StoreFixture& fixture() { return *fixture_; }
  std::unique_ptr<OwnedTransaction> Begin() { return ValueOrThrow(store_->Begin()); }

  /// In a transaction of its own, which commits.
  bool Ask(std::string_view scope, std::string_view key) {
    const auto transaction = Begin();
    const bool first = ValueOrThrow(EnsureOnce(*transaction, scope, key));
    ValueOrThrow(transaction->Commit());
    return first;
  }

  /// What a second transaction gets to hear that asks while a first one has the key, and waits for its end.
  bool AskBesideOneThat(bool commits) {
    const auto first = Begin();
    EXPECT_TRUE(ValueOrThrow(EnsureOnce(*first, "payment", "p-1")));
    std::atomic<bool> begun = false;
    std::atomic<bool> answered = false;
    bool answer = false;
    std::thread second([&] {
      const auto store = fixture_->Open();
      begun = true;
      const auto transaction = ValueOrThrow(store->Begin());
      answer = ValueOrThrow(EnsureOnce(*transaction, "payment", "p-1"));
      answered = true;
      ValueOrThrow(transaction->Commit());
    });
    while (!begun) std::this_thread::yield();
    EXPECT_FALSE(answered);
    ValueOrThrow(commits ? first->Commit() : first->Rollback());
    second.join();
    return answer;
  }

 private:
  std::unique_ptr<StoreFixture> fixture_ = MakeStoreFixture(GetParam());
  std::unique_ptr<OutboxStore> store_ = fixture_->Open();
};

INSTANTIATE_TEST_SUITE_P(Store, OnceKeyContract, ::testing::Values("memory", "sqlite", "postgres"),
                         [](const auto& test) { return test.param; });

TEST_P(OnceKeyContract, IsTrueOnceAndFalseEverAfter) {
  EXPECT_TRUE(Ask("payment", "p-1"));
  EXPECT_FALSE(Ask("payment", "p-1"));
  EXPECT_FALSE(Ask("payment", "p-1"));
}

TEST_P(OnceKeyContract, ScopesAndKeysAreToldApart) {
  EXPECT_TRUE(Ask("payment", "p-1"));
  EXPECT_TRUE(Ask("payment", "p-2"));
  EXPECT_TRUE(Ask("refund", "p-1"));
  EXPECT_TRUE(Ask("a", "bc"));
  EXPECT_TRUE(Ask("ab", "c"));
  EXPECT_TRUE(Ask("payment", "P-1"));
  EXPECT_TRUE(Ask("payment", "p-1 "));
}

TEST_P(OnceKeyContract, ASecondQuestionOfTheSameTransactionIsFalse) {
  const auto transaction = Begin();
  EXPECT_TRUE(ValueOrThrow(EnsureOnce(*transaction, "payment", "p-1")));
  EXPECT_FALSE(ValueOrThrow(EnsureOnce(*transaction, "payment", "p-1")));
  ValueOrThrow(transaction->Commit());
  EXPECT_FALSE(Ask("payment", "p-1"));
}

TEST_P(OnceKeyContract, ARollbackFreesTheKey) {
  {
    const auto transaction = Begin();
    EXPECT_TRUE(ValueOrThrow(EnsureOnce(*transaction, "payment", "p-1")));
  }
  EXPECT_TRUE(Ask("payment", "p-1"));
}

TEST_P(OnceKeyContract, WhoWaitsForACommitGetsFalse) {
  EXPECT_FALSE(AskBesideOneThat(true));
}

TEST_P(OnceKeyContract, WhoWaitsForARollbackGetsTrue) {
  EXPECT_TRUE(AskBesideOneThat(false));
  EXPECT_FALSE(Ask("payment", "p-1"));
}

TEST_P(OnceKeyContract, OfManyAtOnceExactlyOneIsFirst) {
  constexpr int kThreads = 8;
  std::atomic<int> firsts = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const auto store = fixture().Open();
      for (int key = 0; key < 10; ++key) {
        bool first = false;
        InTransaction(*store, [&](Transaction& transaction) -> Status {
          SEALANE_ASSIGN_OR_RETURN(first, EnsureOnce(transaction, "payment", "p-" + std::to_string(key)));
          return Ok();
        });
        if (first) ++firsts;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(firsts, 10);
}

TEST_P(OnceKeyContract, TakesAnyTextAndRefusesWhatIsNone) {
  EXPECT_TRUE(Ask(R"(it's "; drop table once; --)", "\xf0\x9f\x92\xb6 \n\t'$1 ?1"));
  EXPECT_FALSE(Ask(R"(it's "; drop table once; --)", "\xf0\x9f\x92\xb6 \n\t'$1 ?1"));
  EXPECT_TRUE(Ask(std::string(255, 's'), std::string(1'024, 'k')));
  const auto transaction = Begin();
  const std::string nul("a\0b", 3);
  for (const auto& [scope, key] : std::vector<std::pair<std::string, std::string>>{{"", "k"},
                                                                                   {"s", ""},
                                                                                   {std::string(256, 's'), "k"},
                                                                                   {"s", std::string(1'025, 'k')},
                                                                                   {nul, "k"},
                                                                                   {"s", nul},
                                                                                   {"s", "\xff"}}) {
    const auto asked = EnsureOnce(*transaction, scope, key);
    ASSERT_FALSE(asked.has_value());
    EXPECT_EQ(asked.error().kind(), ErrorKind::kRejected);
    EXPECT_EQ(asked.error().code(), "invalid_once");
    EXPECT_FALSE(asked.error().hint().empty());
  }
  // The refusals touched nothing, so the transaction goes on.
  EXPECT_TRUE(ValueOrThrow(EnsureOnce(*transaction, "s", "k")));
}

// ---- in handlers ----

class OnceKeyInHandlers : public ::testing::TestWithParam<std::string> {
 protected:
  InboxFixture& fixture() { return *fixture_; }
  /// As a handler of the delivery sees the transaction.
  static bool Ask(InboxBatch& batch, const Delivery& delivery, std::string_view key) {
    CausedTransaction caused(batch, *delivery.envelope);
    return ValueOrThrow(EnsureOnce(caused, "payment", key));
  }

 private:
  std::unique_ptr<InboxFixture> fixture_ = MakeInboxFixture(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Store, OnceKeyInHandlers, ::testing::ValuesIn(InboxStores()),
                         [](const auto& test) { return test.param; });

TEST_P(OnceKeyInHandlers, TwoEventsOfOneBatchShareAKey) {
  InboxSeat seat(fixture(), "billing", InboxMode::kRecord);
  const std::vector<Delivery> deliveries = {DeliveryOf("a", 0), DeliveryOf("b", 1)};
  const auto batch = seat.Open(deliveries);
  EXPECT_TRUE(Ask(*batch, deliveries[0], "p-1"));
  EXPECT_FALSE(Ask(*batch, deliveries[1], "p-1"));
  seat.Finish(*batch, {Processed(), Processed()});
}

TEST_P(OnceKeyInHandlers, KeysAreOfTheStoreAndNotOfAConsumer) {
  const Delivery delivery = DeliveryOf("a", 0);
  InboxSeat billing(fixture(), "billing", InboxMode::kRecord);
  {
    const auto batch = billing.Open({delivery});
    EXPECT_TRUE(Ask(*batch, delivery, "p-1"));
    billing.Finish(*batch, {Processed()});
  }
  InboxSeat shipping(fixture(), "shipping", InboxMode::kOffsets);
  const auto batch = shipping.Open({delivery});
  EXPECT_FALSE(Ask(*batch, delivery, "p-1"));
  shipping.Finish(*batch, {Processed()});
}

TEST_P(OnceKeyInHandlers, ABatchThatIsLostFreesItsKeys) {
  const Delivery delivery = DeliveryOf("a", 0);
  InboxSeat seat(fixture(), "billing", InboxMode::kRecord);
  { EXPECT_TRUE(Ask(*seat.Open({delivery}), delivery, "p-1")); }
  const auto batch = seat.Open({delivery});
  EXPECT_TRUE(Ask(*batch, delivery, "p-1"));
  seat.Finish(*batch, {Processed()});
}

TEST_P(OnceKeyInHandlers, ARetryThatIsTakenBackFreesItsKeys) {
  const Delivery delivery = DeliveryOf("a", 0);
  InboxSeat seat(fixture(), "billing", InboxMode::kRecord);
  seat.Handle({delivery}, {Failed(1, std::nullopt)});
  auto retry = seat.Retry("a");
  ASSERT_TRUE(retry.has_value());
  EXPECT_TRUE(Ask(*retry->batch, delivery, "p-1"));
  ValueOrThrow(retry->batch->Rewind());
  EXPECT_TRUE(Ask(*retry->batch, delivery, "p-1"));
  const Outcome done = Processed();
  ValueOrThrow(retry->batch->Finish({&done, 1}));
}

}  // namespace
}  // namespace sealane
