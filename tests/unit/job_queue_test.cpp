#include "inbox/job_queue.hpp"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace sealane {
namespace {

std::shared_ptr<PartitionRun> RunOf(std::int32_t number) {
  AttachedPartition attached;
  attached.partition = {"orders", number};
  return std::make_shared<PartitionRun>(std::move(attached), "1", 10);
}

Job JobOf(const std::shared_ptr<PartitionRun>& run, std::int64_t offset) {
  ReceivedMessage message;
  message.partition = run->partition();
  message.offset = offset;
  return {run, std::move(message), 1};
}

/// Everything that comes out, as `partition:offset`, when a turn ends after `turn` jobs of one partition.
std::string Drain(JobQueue& queue, std::size_t turn) {
  std::string order;
  while (!queue.empty()) {
    const PartitionRun* const run = queue.front().run.get();
    for (std::size_t i = 0; i < turn && !queue.empty() && queue.front().run.get() == run; ++i) {
      const Job job = queue.Pop();
      order += std::to_string(job.message.partition.number) + ":" + std::to_string(job.message.offset) + " ";
    }
    queue.EndTurn(run);
  }
  return order;
}

TEST(JobQueueTest, PartitionsTakeTurnsAndKeepTheirOrder) {
  JobQueue queue(true);
  const auto a = RunOf(0);
  const auto b = RunOf(1);
  for (std::int64_t i = 0; i < 3; ++i) {
    queue.Push(JobOf(a, i));
    queue.Push(JobOf(b, i));
  }
  EXPECT_EQ(queue.size(), 6U);
  EXPECT_EQ(Drain(queue, 2), "0:0 0:1 1:0 1:1 0:2 1:2 ");
  EXPECT_EQ(queue.size(), 0U);
}

TEST(JobQueueTest, OneLineKeepsTheOrderOfAllPartitions) {
  JobQueue queue(false);
  const auto a = RunOf(0);
  const auto b = RunOf(1);
  for (std::int64_t i = 0; i < 2; ++i) {
    queue.Push(JobOf(a, i));
    queue.Push(JobOf(b, i));
  }
  EXPECT_EQ(Drain(queue, 2), "0:0 1:0 0:1 1:1 ");
}

TEST(JobQueueTest, WhatIsTakenBackComesNext) {
  for (const bool by_partition : {true, false}) {
    JobQueue queue(by_partition);
    const auto a = RunOf(0);
    const auto b = RunOf(1);
    queue.Push(JobOf(a, 0));
    queue.Push(JobOf(b, 0));
    queue.PushFront(queue.Pop());
    EXPECT_EQ(queue.size(), 2U);
    EXPECT_EQ(Drain(queue, 1), "0:0 1:0 ");
  }
}

TEST(JobQueueTest, ATurnEndsOnlyForThePartitionWhoseTurnItIs) {
  JobQueue queue(true);
  const auto a = RunOf(0);
  const auto b = RunOf(1);
  queue.Push(JobOf(a, 0));
  queue.Push(JobOf(b, 0));
  queue.EndTurn(b.get());
  EXPECT_EQ(Drain(queue, 1), "0:0 1:0 ");
}

}  // namespace
}  // namespace sealane
