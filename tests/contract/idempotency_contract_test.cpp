// What every store promises about requests that run once: a repeated one is answered, never run again, and a rolled
// back, abandoned or long forgotten one may run anew.

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "sealane/transaction.hpp"

#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;

class OnceContract : public ::testing::TestWithParam<std::string> {
 protected:
  OutboxStore& store() { return *store_; }
  StoreFixture& fixture() { return *fixture_; }
  std::unique_ptr<OwnedTransaction> Begin() { return ValueOrThrow(store_->Begin()); }

  static IdempotencyClaim Claim(std::string hash = "hash-1") { return {"t1", "request-1", std::move(hash)}; }

  /// What a new transaction that ends at once gets to hear.
  IdempotencyOutcome Ask(const IdempotencyClaim& claim) { return ValueOrThrow(Begin()->BeginOnce(claim)); }

  void BeginAndCommit(const IdempotencyClaim& claim) {
    InTransaction(store(), [&](Transaction& transaction) -> Status {
      SEALANE_ASSIGN_OR_RETURN(const auto outcome, transaction.BeginOnce(claim));
      EXPECT_EQ(outcome.state, IdempotencyState::kNew);
      return Ok();
    });
  }
  void Answer(const IdempotencyClaim& claim, const StoredResponse& response) {
    InTransaction(store(), [&](Transaction& transaction) -> Status {
      SEALANE_ASSIGN_OR_RETURN(const auto outcome, transaction.BeginOnce(claim));
      EXPECT_EQ(outcome.state, IdempotencyState::kNew);
      return transaction.CompleteOnce(claim, response);
    });
  }

 private:
  std::unique_ptr<StoreFixture> fixture_ = MakeStoreFixture(GetParam());
  std::unique_ptr<OutboxStore> store_ = fixture_->Open();
};

INSTANTIATE_TEST_SUITE_P(Store, OnceContract, ::testing::Values("memory", "sqlite", "postgres"),
                         [](const auto& test) { return test.param; });

TEST_P(OnceContract, AnswersARepeatedRequestWithTheStoredResponse) {
  const StoredResponse response{201, std::string("{\"id\":1}\0\xff", 10)};
  Answer(Claim(), response);
  const auto again = Ask(Claim());
  EXPECT_EQ(again.state, IdempotencyState::kReplay);
  EXPECT_EQ(again.response, response);
}

TEST_P(OnceContract, AnEmptyBodyIsAResponseToo) {
  Answer(Claim(), {204, ""});
  EXPECT_EQ(Ask(Claim()).response, (StoredResponse{204, ""}));
}

TEST_P(OnceContract, RefusesAnotherRequestWithTheSameKey) {
  Answer(Claim(), {200, "ok"});
  const auto other = Ask(Claim("hash-2"));
  EXPECT_EQ(other.state, IdempotencyState::kConflict);
  EXPECT_FALSE(other.response.has_value());
}

TEST_P(OnceContract, AKeyIsOfOneTenant) {
  Answer(Claim(), {200, "ok"});
  IdempotencyClaim other = Claim("hash-2");
  other.tenant = "t2";
  EXPECT_EQ(Ask(other).state, IdempotencyState::kNew);
}

TEST_P(OnceContract, ARollbackFreesTheKey) {
  {
    const auto transaction = Begin();
    ValueOrThrow(transaction->BeginOnce(Claim()));
    ValueOrThrow(transaction->CompleteOnce(Claim(), {200, "never"}));
  }
  EXPECT_EQ(Ask(Claim("hash-2")).state, IdempotencyState::kNew);
}

TEST_P(OnceContract, ARequestInAnotherOpenTransactionIsInProgress) {
  const auto transaction = Begin();
  ValueOrThrow(transaction->BeginOnce(Claim()));
  const auto other = fixture().OpenImpatient();
  auto second = other->Begin();
  if (fixture().has_one_writer()) {
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().kind(), ErrorKind::kConflict);
    EXPECT_EQ(second.error().code(), "store_busy");
  } else {
    EXPECT_EQ(ValueOrThrow((*second)->BeginOnce(Claim())).state, IdempotencyState::kInProgress);
    ValueOrThrow((*second)->Rollback());
  }
  ValueOrThrow(transaction->CompleteOnce(Claim(), {200, "ok"}));
  ValueOrThrow(transaction->Commit());
  EXPECT_EQ(Ask(Claim()).state, IdempotencyState::kReplay);
}

TEST_P(OnceContract, AnUnfinishedClaimIsFreeAgainAfterItsPatience) {
  IdempotencyClaim claim = Claim();
  claim.patience = std::chrono::minutes{10};
  BeginAndCommit(claim);
  EXPECT_EQ(Ask(claim).state, IdempotencyState::kInProgress);
  fixture().LetTimePass(std::chrono::minutes{9});
  EXPECT_EQ(Ask(claim).state, IdempotencyState::kInProgress);
  fixture().LetTimePass(std::chrono::minutes{2});
  EXPECT_EQ(Ask(Claim("hash-2")).state, IdempotencyState::kConflict) << "free for the same request only";
  EXPECT_EQ(Ask(claim).state, IdempotencyState::kNew);
}

TEST_P(OnceContract, AResponseIsForgottenAfterItsTime) {
  IdempotencyClaim claim = Claim();
  claim.remember = std::chrono::hours{2};
  Answer(claim, {200, "ok"});
  fixture().LetTimePass(std::chrono::minutes{119});
  EXPECT_EQ(Ask(claim).state, IdempotencyState::kReplay);
  fixture().LetTimePass(std::chrono::minutes{2});
  Answer(Claim("hash-2"), {200, "another"});
  EXPECT_EQ(Ask(Claim("hash-2")).response, (StoredResponse{200, "another"}));
}

TEST_P(OnceContract, CompletesOnlyWhatWasBegun) {
  const auto not_begun = Begin()->CompleteOnce(Claim(), {200, "ok"});
  ASSERT_FALSE(not_begun.has_value());
  EXPECT_EQ(not_begun.error().kind(), ErrorKind::kMisuse);
  EXPECT_EQ(not_begun.error().code(), "not_begun");

  BeginAndCommit(Claim());
  EXPECT_EQ(Begin()->CompleteOnce(Claim("hash-2"), {200, "ok"}).error().code(), "not_begun");

  const auto transaction = Begin();
  ValueOrThrow(transaction->CompleteOnce(Claim(), {200, "ok"}));
  EXPECT_EQ(transaction->CompleteOnce(Claim(), {200, "twice"}).error().code(), "not_begun");
}

TEST_P(OnceContract, SixteenClientsWithOneKeyRunTheCommandOnce) {
  constexpr int kThreads = 16;
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, &answered] {
      const auto own = fixture().Open();
      std::optional<StoredResponse> got;
      while (!got) {
        InTransaction(*own, [&](Transaction& transaction) -> Status {
          SEALANE_ASSIGN_OR_RETURN(const auto outcome, transaction.BeginOnce(Claim()));
          got = outcome.response;
          if (outcome.state != IdempotencyState::kNew) return Ok();
          const NewEntry entry = SampleEntry();  // the command
          SEALANE_RETURN_IF_ERROR(transaction.Append({&entry, 1}));
          return transaction.CompleteOnce(Claim(), {200, "done"});
        });
      }
      if (got == StoredResponse{200, "done"}) ++answered;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, kThreads);
  EXPECT_EQ(CountEvents(store()), 1U);
}

}  // namespace
}  // namespace sealane
