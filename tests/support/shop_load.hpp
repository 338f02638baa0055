#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace sealane::testing {

/// A small shop that writes all the time: several writers, each transaction with business rows and their events. The
/// number of a key grows under a row lock, so its events have an order that the database itself vouches for. Some
/// transactions are rolled back. A writer whose connection breaks connects again and goes on: what the surviving
/// database has is the truth, not what a writer remembers.
class ShopLoad {
 public:
  static constexpr int kKeys = 12;

  /// The shop's tables in a database that has Sealane's already.
  static void Prepare(const std::string& url);
  /// The tenant of every third key: "", "t1" or "t2".
  static std::string TenantOf(int key);

  ShopLoad(std::string url, std::string topic, std::uint64_t seed, int writers = 3);
  ~ShopLoad();
  ShopLoad(const ShopLoad&) = delete;
  ShopLoad& operator=(const ShopLoad&) = delete;

  /// Returns when no transaction is under way. A load begins paused.
  void Pause();
  void Resume();
  /// Waits until so many transactions more were committed; false when that takes too long.
  bool AwaitMore(int count);
  /// Lets so many through and pauses.
  void WriteMore(int count);

 private:
  void Write(std::uint64_t seed);

  std::string url_;
  std::string topic_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> paused_{true};
  std::atomic<std::int64_t> left_{0};  ///< with a limit: transactions that may still begin
  std::atomic<bool> limited_{false};
  std::atomic<int> busy_{0};
  std::atomic<std::int64_t> committed_{0};
  std::vector<std::thread> threads_;
};

}  // namespace sealane::testing
