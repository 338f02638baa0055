#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/random.hpp"

#include "broker/subscription.hpp"
#include "demo/board.hpp"
#include "demo/place.hpp"

namespace sealane::demo {

/// A message as it stands in a topic.
struct Delivered {
  std::string topic;
  std::int32_t partition = 0;
  std::int64_t offset = 0;
  Timestamp published_at{};
  std::string id;    ///< of its event
  std::string hash;  ///< hexadecimal, of the payload that arrived
};

/// Reads the topics from their beginning, in a group of its own, and remembers every message: what was delivered,
/// independently of relay and consumers. Its methods are thread-safe.
class TopicWatch {
 public:
  static Result<std::unique_ptr<TopicWatch>> Start(const Place& place, Clock& clock, Random& random,
                                                   FirstFailure& failure);
  ~TopicWatch();
  TopicWatch(const TopicWatch&) = delete;
  TopicWatch& operator=(const TopicWatch&) = delete;

  /// Puts what it has seen into these counts.
  void Count(Counts& counts) const;
  /// Events that came at least twice.
  std::int64_t twice() const;
  std::vector<Delivered> All() const;
  /// In how many partitions of a topic it has seen messages.
  std::size_t Partitions(std::string_view topic) const;

 private:
  TopicWatch(std::unique_ptr<Subscription> subscription, FirstFailure& failure);
  void Watch(std::stop_token stop);
  Status LookOnce();
  Status Remember(const ReceivedMessage& message);

  std::unique_ptr<Subscription> subscription_;
  FirstFailure& failure_;
  std::map<Partition, std::int64_t> next_;  // of the thread: where each partition is to be read on when it comes back
  mutable std::mutex mutex_;
  std::vector<Delivered> all_;             // guarded by mutex_, as are the next
  std::unordered_set<std::string> once_;   // ids that came
  std::unordered_set<std::string> twice_;  // ids that came again
  std::jthread thread_;                    // last: it uses everything above
};

}  // namespace sealane::demo
