#include "journal/journal_publisher.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/file_id.hpp"
#include "broker/interruption.hpp"
#include "journal/batch_writer.hpp"

namespace sealane {
namespace {

using journal::BatchMark;
using journal::BatchWriter;
using journal::WrittenSoFar;
using std::chrono::milliseconds;

// While another process writes: short, because a transaction of ours or of our kind takes milliseconds.
constexpr milliseconds kBusyRetryMin{1};
constexpr milliseconds kBusyRetryMax{20};
// When the disk or the file is the problem.
constexpr milliseconds kTroubleRetryMin{100};
constexpr milliseconds kTroubleRetryMax{5'000};

PublisherHealth HealthOf(const Error& problem) {
  const bool needs_person = problem.kind() == ErrorKind::kMisconfigured || problem.kind() == ErrorKind::kCorrupt;
  return {.state = needs_person ? PublisherHealth::State::kMisconfigured : PublisherHealth::State::kUnreachable,
          .problem = problem};
}

/// What JournalOptions::message_max_bytes is about.
std::size_t ContentSize(const OutgoingMessage& message) {
  std::size_t size = message.key.size() + message.value.size();
  for (const HeaderView& header : message.headers) size += header.name.size() + header.value.size();
  return size;
}

class JournalPublisher final : public Publisher {
 public:
  JournalPublisher(JournalOptions options, Clock& clock)
      : options_(std::move(options)), clock_(clock), interruption_(clock) {}

  Status Open() {
    SEALANE_ASSIGN_OR_RETURN(BatchWriter writer, BatchWriter::Open(options_, so_far_, clock_));
    writer_.emplace(std::move(writer));
    return Ok();
  }

  Submitted Submit(const OutgoingMessage& message) override {
    const std::size_t size = HeldSize(message);
    if (!options_.hold.HasRoom(held_.size() + answers_.size(), held_bytes_, size)) return Submitted::kFull;
    if (failed_keys_.Has(message.topic, message.key)) {
      answers_.push_back(HeldBackDelivery(message.token));
    } else if (message.topic.empty()) {
      Reject(message, "invalid_topic", "a message needs a topic");
    } else if (const std::size_t content = ContentSize(message); content > options_.message_max_bytes) {
      Reject(message, "message_too_large",
             fmt::format("the message has {} bytes; this journal takes {}", content, options_.message_max_bytes));
    } else {
      held_.emplace_back(message);
      held_bytes_ += size;
    }
    return Submitted::kTaken;
  }

  void Collect(std::vector<Delivery>& out, milliseconds wait) override {
    const BootTime deadline = clock_.SinceBoot() + wait;
    while (true) {
      if (!held_.empty() && clock_.SinceBoot() >= next_attempt_) Write();
      if (!answers_.empty()) {
        std::move(answers_.begin(), answers_.end(), std::back_inserter(out));
        answers_.clear();
        failed_keys_.Clear();
        return;
      }
      const BootTime now = clock_.SinceBoot();
      if (now >= deadline) return;
      const BootTime until = held_.empty() ? deadline : std::min(deadline, next_attempt_);
      if (interruption_.Wait(until - now)) return;
    }
  }

  void Abandon() override {
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const DeliveryStatus status =
          i < in_doubt_count_ ? DeliveryStatus::kPossiblyPersisted : DeliveryStatus::kNotPersisted;
      answers_.push_back(AbandonedDelivery(held_[i].token, status));
    }
    Forget(held_.size());
    in_doubt_.reset();
  }

  void Interrupt() override { interruption_.Raise(); }

  PublisherHealth health() const override {
    const std::lock_guard lock(health_mutex_);
    return health_;
  }

 private:
  void Reject(const OutgoingMessage& message, std::string code, std::string why) {
    failed_keys_.Add(message.topic, message.key);
    answers_.push_back({.token = message.token,
                        .status = DeliveryStatus::kNotPersisted,
                        .failure = FailureClass::kRejected,
                        .code = std::move(code),
                        .message = std::move(why)});
  }

  // One attempt to write everything that is held.
  void Write() {
    const Status written = TryWrite();
    if (written) {
      Confirm(held_.size());
    } else if (written.error().kind() == ErrorKind::kConflict) {
      WaitForOthers(written.error());
    } else {
      WaitForRepair(written.error());
    }
  }

  Status TryWrite() {
    if (writer_ && !writer_->RequireCurrent()) writer_.reset();
    if (!writer_) {
      SEALANE_ASSIGN_OR_RETURN(BatchWriter reopened, BatchWriter::Open(ImpatientOptions(), so_far_, clock_));
      writer_.emplace(std::move(reopened));
    }
    if (in_doubt_) {
      SEALANE_ASSIGN_OR_RETURN(const bool written, writer_->Holds(*in_doubt_));
      if (written) Confirm(in_doubt_count_);
      in_doubt_.reset();
      in_doubt_count_ = 0;
      if (held_.empty()) return Ok();
    }
    return writer_->Write(held_);
  }

  void Confirm(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) answers_.push_back({.token = held_[i].token});
    Forget(count);
    busy_since_.reset();
    busy_retry_ = kBusyRetryMin;
    trouble_retry_ = kTroubleRetryMin;
    SetHealth({});
  }

  void Forget(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) held_bytes_ -= held_[i].size;
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(count));
    in_doubt_count_ -= std::min(in_doubt_count_, count);
  }

  void WaitForOthers(const Error& busy) {
    const BootTime now = clock_.SinceBoot();
    if (!busy_since_) busy_since_ = now;
    if (now - *busy_since_ >= options_.busy_patience) SetHealth(HealthOf(busy));
    next_attempt_ = now + busy_retry_;
    busy_retry_ = std::min(busy_retry_ * 2, kBusyRetryMax);
  }

  void WaitForRepair(const Error& trouble) {
    if (trouble.kind() == ErrorKind::kInDoubt) {
      in_doubt_ = writer_->mark();
      in_doubt_count_ = held_.size();
    }
    SetHealth(HealthOf(trouble));
    writer_.reset();
    next_attempt_ = clock_.SinceBoot() + trouble_retry_;
    trouble_retry_ = std::min(trouble_retry_ * 2, kTroubleRetryMax);
  }

  // Collect() is not to wait longer than it was told, so a new connection does not either.
  JournalOptions ImpatientOptions() const {
    JournalOptions options = options_;
    options.busy_patience = milliseconds{0};
    return options;
  }

  void SetHealth(PublisherHealth health) {
    const std::lock_guard lock(health_mutex_);
    health_ = std::move(health);
  }

  const JournalOptions options_;
  Clock& clock_;
  Interruption interruption_;  // has its own lock
  // Of the thread that submits and collects.
  WrittenSoFar so_far_;                // outlives the writers
  std::optional<BatchWriter> writer_;  // empty: to be opened again
  std::deque<HeldMessage> held_;       // in the order of Submit()
  std::size_t held_bytes_ = 0;
  std::vector<Delivery> answers_;  // what comes out of the next Collect()
  FailedKeys failed_keys_;
  std::optional<BatchMark> in_doubt_;  // a commit failed, and the first in_doubt_count_ messages may be written
  std::size_t in_doubt_count_ = 0;
  std::optional<BootTime> busy_since_;
  BootTime next_attempt_{0};
  milliseconds busy_retry_ = kBusyRetryMin;
  milliseconds trouble_retry_ = kTroubleRetryMin;

  mutable std::mutex health_mutex_;
  PublisherHealth health_;  // guarded by health_mutex_
};

}  // namespace

Result<std::unique_ptr<Publisher>> OpenJournalPublisher(const JournalOptions& options, Clock& clock) {
  if (options.partitions < 1 || options.partitions > kJournalPartitionsMax) {
    return Error(ErrorKind::kMisconfigured, "invalid_partitions",
                 fmt::format("a topic cannot have {} partitions", options.partitions))
        .WithHint(fmt::format("choose 1 to {}", kJournalPartitionsMax));
  }
  JournalOptions kept = options;
  kept.path = AbsolutePath(options.path);  // it is opened again after trouble
  auto publisher = std::make_unique<JournalPublisher>(std::move(kept), clock);
  SEALANE_RETURN_IF_ERROR(publisher->Open());
  return std::unique_ptr<Publisher>(std::move(publisher));
}

}  // namespace sealane
