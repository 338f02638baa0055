#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <librdkafka/rdkafka.h>

#include "broker/publisher.hpp"

namespace sealane::kafka {

/// How the brokers are, gathered from librdkafka's remarks. Written by the publisher's thread, read by any.
class HealthBoard {
 public:
  explicit HealthBoard(std::string mechanism) : mechanism_(std::move(mechanism)) {}

  /// librdkafka speaks of single connections and then of all of them; the first kind explains the second.
  void OnBrokerError(rd_kafka_resp_err_t error, std::string_view text);
  /// Messages wait and nothing comes back.
  void OnSilence(Error problem);
  /// This publisher cannot work as it is set up.
  void OnMisconfigured(Error problem);
  /// A broker answered a request of ours.
  void OnProgress() {
    if (!is_ready_.load(std::memory_order_relaxed)) SetReady();
  }

  bool is_ready() const { return is_ready_.load(std::memory_order_relaxed); }
  PublisherHealth Read() const;

 private:
  void SetReady();
  void Set(PublisherHealth::State state, Error problem);

  const std::string mechanism_;
  std::atomic<bool> is_ready_{true};
  std::optional<Error> cause_;  // of the publisher's thread
  mutable std::mutex mutex_;
  PublisherHealth health_;  // guarded by mutex_
};

}  // namespace sealane::kafka
