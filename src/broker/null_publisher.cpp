#include "broker/null_publisher.hpp"

#include <condition_variable>
#include <mutex>

namespace sealane {
namespace {

class NullPublisher final : public Publisher {
 public:
  Submitted Submit(const OutgoingMessage& message) override {
    if (taken_.size() >= kTakenMax) return Submitted::kFull;
    taken_.push_back(message.token);
    return Submitted::kTaken;
  }

  void Collect(std::vector<Delivery>& out, std::chrono::milliseconds wait) override {
    if (taken_.empty()) {
      std::unique_lock lock(mutex_);
      interrupted_changed_.wait_for(lock, wait, [&] { return interrupted_; });
    }
    {
      const std::lock_guard lock(mutex_);
      interrupted_ = false;
    }
    for (const std::uint64_t token : taken_) out.push_back(Delivery{.token = token});
    taken_.clear();
  }

  void Abandon() override {}  // everything is persisted the moment it is taken

  void Interrupt() override {
    {
      const std::lock_guard lock(mutex_);
      interrupted_ = true;
    }
    interrupted_changed_.notify_one();
  }

  PublisherHealth health() const override { return {}; }

 private:
  static constexpr std::size_t kTakenMax = 10'000;

  std::vector<std::uint64_t> taken_;
  std::mutex mutex_;
  std::condition_variable interrupted_changed_;
  bool interrupted_ = false;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<Publisher> MakeNullPublisher() {
  return std::make_unique<NullPublisher>();
}

}  // namespace sealane
