#include "null_publisher.hpp"

#include <condition_variable>
#include <mutex>

namespace sealane::cli {
namespace {

class NullPublisher final : public Publisher {
 public:
  Submitted Submit(const OutgoingMessage& message) override {
    if (tokens_.size() >= kHeldMax) return Submitted::kFull;
    tokens_.push_back(message.token);
    return Submitted::kTaken;
  }

  void Collect(std::vector<Delivery>& out, std::chrono::milliseconds wait) override {
    if (tokens_.empty()) {
      std::unique_lock lock(mutex_);
      called_.wait_for(lock, wait, [this] { return interrupted_; });
      interrupted_ = false;
      return;
    }
    for (const std::uint64_t token : tokens_) out.push_back({.token = token});
    tokens_.clear();
  }

  // Everything was persisted as far as this destination goes; there is nothing to give back.
  void Abandon() override {}

  void Interrupt() override {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
    called_.notify_all();
  }

  PublisherHealth health() const override { return {}; }

 private:
  static constexpr std::size_t kHeldMax = 100'000;

  std::vector<std::uint64_t> tokens_;  // of the one thread that submits and collects
  std::mutex mutex_;
  std::condition_variable called_;
  bool interrupted_ = false;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<Publisher> MakeNullPublisher() {
  return std::make_unique<NullPublisher>();
}

}  // namespace sealane::cli
