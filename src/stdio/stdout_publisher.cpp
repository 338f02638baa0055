#include "stdio/stdout_publisher.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/hex.hpp"
#include "base/text.hpp"
#include "broker/wake_up.hpp"
#include "core/json_object.hpp"

namespace sealane {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetryAfterFailure{1'000};
// What a pipe that poll() calls writable takes without blocking.
constexpr std::size_t kWriteMax = 4096;
constexpr std::size_t kForgetAfter = std::size_t{64} << 10U;
constexpr std::chrono::minutes kPollMax{1};

void AppendLine(std::string& out, const OutgoingMessage& message) {
  JsonAppender json(out);
  json.Open();
  json.Text("id", message.event_id.ToString());
  json.Text("topic", message.topic);
  json.Text("key", message.key);
  if (!message.headers.empty()) {
    json.OpenInside("headers");
    for (const HeaderView& header : message.headers) json.AnyText(header.name, header.value);
    json.Close();
  }
  if (IsUtf8(message.value)) {
    json.Text("value", message.value);
  } else {
    json.Base64("value_base64", message.value);
  }
  json.Close();
  out.push_back('\n');
}

/// Keeps SIGPIPE from this thread while it lives, and takes away the one that a write may have caused. The process's
/// own handling of the signal is not touched.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec at_once{0, 0};
    if (!was_pending_) {
      while (sigtimedwait(&sigpipe_, nullptr, &at_once) == -1 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t sigpipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

Error OutputFailed(int code) {
  // A disk that is full may be emptied; a reader that is gone does not come back.
  const bool passes = code == ENOSPC || code == EDQUOT || code == EIO;
  return Error(passes ? ErrorKind::kUnavailable : ErrorKind::kMisconfigured, "output_failed",
               fmt::format("the output cannot be written: {}", std::strerror(code)))
      .WithNative(fmt::format("errno {}", code))
      .WithHint(passes ? "free space where the output goes" : "restart with an output that somebody reads");
}

class StdoutPublisher final : public Publisher {
 public:
  StdoutPublisher(const StdoutOptions& options, Clock& clock, WakeUp wake_up)
      : options_(options), clock_(clock), wake_up_(std::move(wake_up)) {}

  Submitted Submit(const OutgoingMessage& message) override {
    if (!options_.hold.HasRoom(lines_.size() + answers_.size(), End() - written_, HeldSize(message))) {
      return Submitted::kFull;
    }
    const std::uint64_t begin = End();
    AppendLine(text_, message);
    lines_.push_back({.token = message.token, .begin = begin, .end = End()});
    return Submitted::kTaken;
  }

  void Collect(std::vector<Delivery>& out, milliseconds wait) override {
    const BootTime deadline = clock_.SinceBoot() + wait;
    while (true) {
      if (clock_.SinceBoot() >= next_attempt_) WriteWhatFits();
      if (!answers_.empty()) {
        std::move(answers_.begin(), answers_.end(), std::back_inserter(out));
        answers_.clear();
        return;
      }
      const BootTime now = clock_.SinceBoot();
      if (now >= deadline || !WaitForRoom(deadline - now)) return;
    }
  }

  void Abandon() override {
    // A line that is partly out stays to be finished; the rest never was there.
    for (const Line& line : lines_) {
      const bool begun = line.begin < written_;
      if (begun) finish_until_ = line.end;
      answers_.push_back(
          AbandonedDelivery(line.token, begun ? DeliveryStatus::kPossiblyPersisted : DeliveryStatus::kNotPersisted));
    }
    lines_.clear();
    text_.resize(std::max(finish_until_, written_) - base_);
  }

  void Interrupt() override { wake_up_.Ring(); }

  PublisherHealth health() const override {
    const std::lock_guard lock(health_mutex_);
    if (!problem_) return {};
    const bool misconfigured = problem_->kind() == ErrorKind::kMisconfigured;
    return {.state = misconfigured ? PublisherHealth::State::kMisconfigured : PublisherHealth::State::kUnreachable,
            .problem = problem_};
  }

 private:
  // Places are counted in bytes of output since the publisher was made.
  struct Line {
    std::uint64_t token = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  std::uint64_t End() const { return base_ + text_.size(); }

  // Writes until the output would block, fails or everything is out.
  void WriteWhatFits() {
    const WithoutSigpipe quiet;
    while (written_ < End()) {
      pollfd output{options_.descriptor, POLLOUT, 0};
      if (::poll(&output, 1, 0) <= 0) break;
      const std::string_view rest = std::string_view(text_).substr(written_ - base_);
      const ssize_t count = ::write(options_.descriptor, rest.data(), std::min(kWriteMax, rest.size()));
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) break;
      if (count < 0) {
        SetProblem(OutputFailed(errno));
        next_attempt_ = clock_.SinceBoot() + kRetryAfterFailure;
        break;
      }
      written_ += static_cast<std::uint64_t>(count);
    }
    ConfirmWritten();
  }

  void ConfirmWritten() {
    while (!lines_.empty() && lines_.front().end <= written_) {
      answers_.push_back({.token = lines_.front().token});
      lines_.pop_front();
      SetProblem(std::nullopt);
    }
    if (written_ < End() && written_ - base_ < kForgetAfter) return;
    text_.erase(0, written_ - base_);
    base_ = written_;
  }

  // Waits until it is worth trying again; false when it was interrupted or the time is over.
  bool WaitForRoom(BootTime duration) {
    const BootTime now = clock_.SinceBoot();
    const bool failed = now < next_attempt_;
    if (failed) duration = std::min(duration, next_attempt_ - now);
    const bool for_output = written_ < End() && !failed;
    pollfd waited[2] = {{wake_up_.descriptor(), POLLIN, 0}, {for_output ? options_.descriptor : -1, POLLOUT, 0}};
    const auto limit = std::chrono::ceil<milliseconds>(std::min<BootTime>(duration, kPollMax));
    const int ready = ::poll(waited, 2, static_cast<int>(limit.count()));
    if (ready > 0 && waited[0].revents != 0) {
      wake_up_.Clear();
      return false;
    }
    return ready > 0 || (failed && clock_.SinceBoot() >= next_attempt_);
  }

  void SetProblem(std::optional<Error> problem) {
    const std::lock_guard lock(health_mutex_);
    problem_ = std::move(problem);
  }

  const StdoutOptions options_;
  Clock& clock_;
  const WakeUp wake_up_;  // rings when Interrupt() was called
  // Of the thread that submits and collects.
  std::string text_;  // output from base_ on
  std::uint64_t base_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t finish_until_ = 0;  // the end of a line that was begun and abandoned
  std::deque<Line> lines_;          // without a delivery
  std::vector<Delivery> answers_;
  BootTime next_attempt_{0};

  mutable std::mutex health_mutex_;
  std::optional<Error> problem_;  // guarded by health_mutex_
};

}  // namespace

std::unique_ptr<Publisher> MakeStdoutPublisher(const StdoutOptions& options, Clock& clock) {
  SEALANE_ASSERT(options.descriptor >= 0, "the output is an open descriptor");
  auto wake_up = WakeUp::Make();
  SEALANE_ASSERT(wake_up.has_value(), "the process has descriptors left");
  return std::make_unique<StdoutPublisher>(options, clock, *std::move(wake_up));
}

}  // namespace sealane
