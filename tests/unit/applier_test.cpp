// Protects that whoever asks a consumer to stop is heard between two transactions, not after all there is to do.

#include "inbox/applier.hpp"

#include <stop_token>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/consumer_bench.hpp"
#include "support/eventually.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ApplierStop : public ::testing::TestWithParam<InboxMode> {
 protected:
  ConsumerOptions Options() const {
    ConsumerOptions options = bench_.Options();
    options.mode = GetParam();
    options.workers = 1;
    return options;
  }

  ConsumerBench bench_;
};

INSTANTIATE_TEST_SUITE_P(Modes, ApplierStop, ::testing::Values(InboxMode::kRecord, InboxMode::kOffsets),
                         [](const auto& mode) { return std::string(ToString(mode.param)); });

TEST_P(ApplierStop, TheRestOfABatchThatIsRunOneByOneIsLeftWhenItsPartitionIsLost) {
  const ConsumerOptions options = Options();
  SeededRandom random(1);
  ConsumerCounters counters;
  std::shared_ptr<PartitionRun> run;
  int handled = 0;
  // Many failures end the attempt to do it all in one transaction.
  const Handling handling = [&](const Envelope& event, const ReceivedMessage&, HandlerTransaction&) -> Decision {
    if (event.aggregate.version <= 5) return Decision::Reject("bad", "bad");
    ++handled;
    run->Cancel();
    return Decision::Done();
  };
  const OpenInboxStore open = [&] {
    return memory::OpenInboxStore(bench_.database(), options.consumer, options.mode, bench_.clock(), bench_.faults());
  };
  Applier applier(options, handling, open, counters, bench_.clock(), random);
  const Partition partition{ConsumerBench::kTopic, 0};
  auto attached = ValueOrThrow(ValueOrThrow(applier.Store())->Attach({&partition, 1}, 100));
  run = std::make_shared<PartitionRun>(std::move(attached.front()), ValueOrThrow(applier.Store())->life(), 100);
  std::vector<Incoming> events;
  for (int i = 0; i < 30; ++i) {
    ReceivedMessage message;
    message.partition = partition;
    message.offset = i;
    message.key = "k" + std::to_string(i);
    message.value = ToJson(bench_.Make(message.key, i + 1));
    events.push_back(ReadIncoming(std::move(message), ReadJsonEnvelope));
  }
  std::size_t done = 0;
  EXPECT_NE(applier.Apply(events, run.get(), done), ApplyEnd::kDone);
  EXPECT_EQ(handled, 1);
  EXPECT_LT(done, 10U);
}

TEST_P(ApplierStop, WhatWasSetAsideIsLeftWhenTheConsumerIsToStop) {
  for (int version = 1; version <= 50; ++version) bench_.Publish(bench_.Make("a", version));
  ConsumerOptions options = Options();
  options.poll_wait = milliseconds{2};
  bool failed = false;
  std::atomic<int> after{0};
  std::stop_source stop;
  const auto consumer =
      bench_.Start(options,
                   [&, noting = bench_.Noting()](const Envelope& event, const ReceivedMessage& message,
                                                 HandlerTransaction& tx) -> Decision {
                     if (!std::exchange(failed, true)) return Decision::RetryLater("busy", "not yet");
                     if (stop.stop_requested()) ++after;
                     stop.request_stop();
                     return noting(event, message, tx);
                   });
  bench_.Settle(*consumer);
  EXPECT_EQ(consumer->stats().parked_total, 50U);
  bench_.clock().Advance(seconds{5});
  std::atomic<bool> ended{false};
  const std::jthread thread([&] {
    EXPECT_TRUE(consumer->Run(stop.get_token(), false));
    ended = true;
  });
  EXPECT_TRUE(Eventually([&] {
    bench_.clock().Advance(milliseconds{20});
    return ended.load();
  }));
  EXPECT_LE(after, 1);
  EXPECT_TRUE(stop.stop_requested());
}

}  // namespace
}  // namespace sealane::testing
