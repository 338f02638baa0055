// Protects the hand-over between threads: bounded in items and bytes, first in first out, and every wait can be
// ended.

#include "base/bounded_queue.hpp"

#include <atomic>
#include <latch>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace sealane {
namespace {

using namespace std::chrono_literals;

std::size_t Length(const std::string& text) {
  return text.size();
}

TEST(BoundedQueue, KeepsTheOrder) {
  BoundedQueue<int> queue(3);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(queue.Push(i, {}), PushOutcome::kPushed);
  EXPECT_EQ(queue.size(), 3U);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(queue.Pop({}), i);
}

TEST(BoundedQueue, TimesOutWhenFullAndWhenEmpty) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.PopFor(1ms, {}), std::nullopt);
  EXPECT_EQ(queue.Push(1, {}), PushOutcome::kPushed);
  EXPECT_EQ(queue.PushFor(2, 1ms, {}), PushOutcome::kTimedOut);
  EXPECT_EQ(queue.Pop({}), 1);
  EXPECT_EQ(queue.PopFor(0ms, {}), std::nullopt);
}

TEST(BoundedQueue, CountsBytes) {
  BoundedQueue<std::string> queue(100, 10, Length);
  EXPECT_EQ(queue.Push("12345", {}), PushOutcome::kPushed);
  EXPECT_EQ(queue.PushFor("123456", 0ms, {}), PushOutcome::kTimedOut);
  EXPECT_EQ(queue.PushFor("12345", 0ms, {}), PushOutcome::kPushed);
  EXPECT_EQ(queue.bytes(), 10U);
  EXPECT_EQ(queue.Pop({}), "12345");
  EXPECT_EQ(queue.bytes(), 5U);
}

TEST(BoundedQueue, LetsAnItemPassThatIsHeavierThanTheWholeQueue) {
  BoundedQueue<std::string> queue(100, 10, Length);
  EXPECT_EQ(queue.PushFor(std::string(50, 'x'), 0ms, {}), PushOutcome::kPushed);
  EXPECT_EQ(queue.PushFor("x", 0ms, {}), PushOutcome::kTimedOut);
  EXPECT_EQ(queue.Pop({})->size(), 50U);
  EXPECT_EQ(queue.bytes(), 0U);
}

TEST(BoundedQueue, HandsOutWhatIsLeftAfterClose) {
  BoundedQueue<int> queue(2);
  EXPECT_EQ(queue.Push(1, {}), PushOutcome::kPushed);
  queue.Close();
  queue.Close();
  EXPECT_TRUE(queue.closed());
  EXPECT_EQ(queue.Push(2, {}), PushOutcome::kClosed);
  EXPECT_EQ(queue.Pop({}), 1);
  EXPECT_EQ(queue.Pop({}), std::nullopt);
}

TEST(BoundedQueue, CloseEndsEveryWait) {
  BoundedQueue<int> full(1);
  BoundedQueue<int> empty(1);
  ASSERT_EQ(full.Push(0, {}), PushOutcome::kPushed);
  std::jthread writer([&] { EXPECT_EQ(full.Push(1, {}), PushOutcome::kClosed); });
  std::jthread reader([&] { EXPECT_EQ(empty.Pop({}), std::nullopt); });
  full.Close();
  empty.Close();
}

TEST(BoundedQueue, StopEndsEveryWait) {
  BoundedQueue<int> full(1);
  BoundedQueue<int> empty(1);
  ASSERT_EQ(full.Push(0, {}), PushOutcome::kPushed);
  std::jthread writer([&](std::stop_token stop) { EXPECT_EQ(full.Push(1, stop), PushOutcome::kStopped); });
  std::jthread reader([&](std::stop_token stop) { EXPECT_EQ(empty.Pop(stop), std::nullopt); });
  writer.request_stop();
  reader.request_stop();
  writer.join();
  EXPECT_EQ(full.size(), 1U);
}

TEST(BoundedQueue, CarriesWhatCannotBeCopied) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_EQ(queue.Push(std::make_unique<int>(7), {}), PushOutcome::kPushed);
  EXPECT_EQ(**queue.Pop({}), 7);
}

TEST(BoundedQueue, LosesAndDoublesNothingBetweenThreads) {
  constexpr int kWriters = 4;
  constexpr int kReaders = 3;
  constexpr int kEach = 2'000;
  BoundedQueue<int> queue(8, 20, [](const int& item) { return static_cast<std::size_t>(item % 7); });
  std::atomic<int> largest{0};
  std::vector<std::vector<int>> taken(kReaders);
  {
    std::vector<std::jthread> readers;
    for (int r = 0; r < kReaders; ++r) {
      readers.emplace_back([&, r] {
        while (auto item = queue.Pop({})) taken[static_cast<std::size_t>(r)].push_back(*item);
      });
    }
    {
      std::vector<std::jthread> writers;
      for (int w = 0; w < kWriters; ++w) {
        writers.emplace_back([&, w] {
          for (int i = 0; i < kEach; ++i) {
            EXPECT_EQ(queue.Push(w * kEach + i, {}), PushOutcome::kPushed);
            largest = std::max(largest.load(), static_cast<int>(queue.size()));
          }
        });
      }
    }
    queue.Close();
  }
  std::vector<int> all;
  for (const auto& part : taken) {
    // Each reader sees every writer's items in the order they were pushed.
    std::vector<int> last(kWriters, -1);
    for (const int item : part) {
      int& before = last[static_cast<std::size_t>(item / kEach)];
      EXPECT_LT(before, item);
      before = item;
    }
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<int> expected(kWriters * kEach);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
  EXPECT_LE(largest, 8);
}

}  // namespace
}  // namespace sealane
