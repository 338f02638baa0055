#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>

#include "sealane/clock.hpp"
#include "sealane/random.hpp"
#include "sealane/result.hpp"

#include "inbox/consumer_options.hpp"
#include "inbox/consumer_stats.hpp"

namespace sealane {

/// What one step did.
struct ConsumerReport {
  std::size_t received = 0;  ///< messages
  std::size_t batches = 0;
  std::size_t retried = 0;
  bool rebalanced = false;
  bool waits = false;  ///< the store or a partition's position is in the way
  bool idle() const { return received == 0 && batches == 0 && retried == 0 && !rebalanced && !waits; }
};

/// Applies the events of a subscription once each: reads, hands them to workers by key, and commits to the broker
/// what is applied, never more.
///
/// A key stays with one worker, so its events are applied in order; different keys run side by side, also those of
/// one partition. What was read and is not done is bounded in bytes; beyond that reading pauses. A consumer may die
/// at any moment: whatever was not committed to the broker comes again, and is known (docs/guarantees.md).
///
/// An unreachable store or broker does not end Run(): messages wait, stats() says why.
class Consumer {
 public:
  /// Nothing is opened yet. The options have passed CheckOptions(). `clock` and `random` must outlive the consumer.
  Consumer(ConsumerOptions options, Handling handling, ReadEnvelope read, OpenInboxStore open_store,
           OpenSubscription open_subscription, Clock& clock, Random& random);
  ~Consumer();

  /// Polls, applies and commits in the caller's thread, without waiting. Do not mix with Run(). Errors are those that
  /// end Run() too.
  Result<ConsumerReport> RunOnce();

  /// Works until a stop is requested or, with `until_caught_up`, until everything that is in the partitions is done
  /// and nothing that was set aside is due. Then lets transactions under way finish, commits, and leaves the group.
  /// Errors are those that a person has to look at: another process under the same member name, messages that are
  /// gone before they were read.
  Status Run(std::stop_token stop, bool until_caught_up = false);

  /// RunOnce() callers: a clean end.
  Status Close();

  /// Thread-safe.
  ConsumerStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sealane
