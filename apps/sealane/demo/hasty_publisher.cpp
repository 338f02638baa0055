#include "demo/hasty_publisher.hpp"

#include <algorithm>
#include <deque>

#include "broker/held_message.hpp"

namespace sealane::demo {
namespace {

using std::chrono::milliseconds;

class HastyPublisher final : public Publisher {
 public:
  HastyPublisher(std::unique_ptr<Publisher> real, milliseconds later, Clock& clock)
      : real_(std::move(real)), later_(later), clock_(clock) {}

  Submitted Submit(const OutgoingMessage& message) override {
    promised_.push_back({HeldMessage(message), clock_.SinceBoot() + later_});
    answers_.push_back({.token = message.token});
    return Submitted::kTaken;
  }

  void Collect(std::vector<Delivery>& out, milliseconds wait) override {
    SendDue();
    // What really becomes of the messages, nobody hears.
    std::vector<Delivery> ignored;
    real_->Collect(ignored, answers_.empty() ? std::min(wait, milliseconds{20}) : milliseconds{0});
    std::move(answers_.begin(), answers_.end(), std::back_inserter(out));
    answers_.clear();
  }

  void Abandon() override {}
  void Interrupt() override { real_->Interrupt(); }
  PublisherHealth health() const override { return {}; }

 private:
  struct Promised {
    HeldMessage message;
    BootTime due;
  };

  void SendDue() {
    while (!promised_.empty() && promised_.front().due <= clock_.SinceBoot()) {
      const HeldMessage& held = promised_.front().message;
      std::vector<HeaderView> headers;
      for (const Header& header : held.headers) headers.push_back({header.name, header.value});
      const Submitted taken = real_->Submit({.token = held.token,
                                             .event_id = held.event_id,
                                             .topic = held.topic,
                                             .key = held.key,
                                             .value = held.value,
                                             .headers = headers});
      if (taken == Submitted::kFull) return;
      promised_.pop_front();
    }
  }

  const std::unique_ptr<Publisher> real_;
  const milliseconds later_;
  Clock& clock_;
  std::deque<Promised> promised_;
  std::vector<Delivery> answers_;
};

}  // namespace

std::unique_ptr<Publisher> MakeHastyPublisher(std::unique_ptr<Publisher> real, milliseconds later, Clock& clock) {
  return std::make_unique<HastyPublisher>(std::move(real), later, clock);
}

}  // namespace sealane::demo
