// Sixteen clients send the same request at the same time: the command runs once, and everybody gets its answer or is
// told to come back. On both databases, with the business write in the same transaction.

#include <atomic>
#include <latch>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sealane/idempotency.hpp"

#include "support/store_fixture.hpp"

namespace sealane {
namespace {

class IdempotencyRace : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Stores, IdempotencyRace, ::testing::Values("memory", "sqlite", "postgres"),
                         [](const auto& param) { return param.param; });

TEST_P(IdempotencyRace, SixteenThreadsRunTheCommandOnce) {
  constexpr int kThreads = 16;
  constexpr int kRounds = 20;
  const auto fixture = testing::MakeStoreFixture(GetParam());
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> executions{0};
    std::atomic<int> replays{0};
    std::vector<std::string> problems(kThreads);
    std::latch start(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const auto store = fixture->Open();
        const Idempotency idempotency;
        const IdempotencyClaim claim{
            .tenant = "t", .key = fmt::format("request-{}", round), .request_hash = HashRequest("pay 5")};
        start.arrive_and_wait();
        // A client that is told "in progress" comes back, as the API asks; so does one that collided.
        for (int attempt = 0; attempt < 100'000; ++attempt) {
          auto transaction = store->Begin();
          if (!transaction) {
            if (transaction.error().kind() == ErrorKind::kConflict) continue;
            problems[static_cast<std::size_t>(i)] = transaction.error().ToString();
            return;
          }
          const auto outcome = idempotency.Begin(**transaction, claim);
          if (!outcome) {
            if (outcome.error().kind() == ErrorKind::kConflict) continue;
            problems[static_cast<std::size_t>(i)] = outcome.error().ToString();
            return;
          }
          if (outcome->state == IdempotencyState::kInProgress) {
            std::this_thread::yield();
            continue;
          }
          if (outcome->state == IdempotencyState::kReplay) {
            if (outcome->response != StoredResponse{201, "paid"})
              problems[static_cast<std::size_t>(i)] = "another answer";
            ++replays;
            return;
          }
          if (!idempotency.Complete(**transaction, claim, {201, "paid"})) {
            problems[static_cast<std::size_t>(i)] = "could not complete";
            return;
          }
          const auto committed = (*transaction)->Commit();
          if (committed) {
            ++executions;
            return;
          }
          if (committed.error().kind() != ErrorKind::kConflict) {
            problems[static_cast<std::size_t>(i)] = committed.error().ToString();
            return;
          }
        }
        problems[static_cast<std::size_t>(i)] = "never got an answer";
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& problem : problems) ASSERT_EQ(problem, "");
    ASSERT_EQ(executions, 1) << "round " << round;
    ASSERT_EQ(replays, kThreads - 1) << "round " << round;
  }
}

}  // namespace
}  // namespace sealane
