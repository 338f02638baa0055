#include "kafka/teardown.hpp"

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "base/log.hpp"

namespace sealane::kafka {
namespace {

constexpr std::chrono::seconds kDestroyMax{5};

}  // namespace

void Destroy(rd_kafka_t* handle, int flags, const char* what) {
  std::promise<void> promise;
  std::future<void> done = promise.get_future();
  std::thread worker([handle, flags, ended = std::move(promise)]() mutable {
    rd_kafka_destroy_flags(handle, flags);
    ended.set_value();
  });
  if (done.wait_for(kDestroyMax) == std::future_status::ready) {
    worker.join();
    return;
  }
  LogWarning("a Kafka client does not end; it is left behind", {{"client", what}});
  worker.detach();
}

}  // namespace sealane::kafka
