#include "http/http_publisher.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "http/curl_handles.hpp"
#include "http/http_answer.hpp"
#include "http/http_endpoint.hpp"
#include "http/http_headers.hpp"

namespace sealane {
namespace {

using http::Answer;
using http::AnswerVerdict;
using std::chrono::milliseconds;

constexpr std::chrono::minutes kRetryAfterMax{5};
constexpr std::chrono::seconds kPollMax{60};

std::size_t DiscardBody(char*, std::size_t size, std::size_t count, void*) {
  return size * count;
}

/// A message that waits or is under way.
struct Job {
  explicit Job(const OutgoingMessage& outgoing) : message(outgoing) {}
  HeldMessage message;
  bool maybe_taken = false;  // an attempt ended without an answer
};

/// The messages of one topic and key, of which the first may be under way.
struct Lane {
  std::string name;
  std::deque<Job> jobs;
};

/// One request at a time, on a handle that keeps its options and its connection.
struct Transfer {
  http::EasyHandle easy;
  http::HeaderList headers;
  Lane* lane = nullptr;  // null: idle
};

class CurlPublisher final : public HttpPublisher {
 public:
  CurlPublisher(HttpOptions options, Clock& clock)
      : options_(std::move(options)), clock_(clock), retry_pause_(options_.retry_min), multi_(curl_multi_init()) {
    SEALANE_ASSERT(multi_ != nullptr, "libcurl has memory");
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(options_.connections_max));
    transfers_.resize(options_.connections_max);
    for (Transfer& transfer : transfers_) {
      Prepare(transfer);
      idle_.push_back(&transfer);
    }
  }
  ~CurlPublisher() override {
    for (Transfer& transfer : transfers_) {
      if (transfer.lane != nullptr) curl_multi_remove_handle(multi_.get(), transfer.easy.get());
    }
  }
  CurlPublisher(const CurlPublisher&) = delete;
  CurlPublisher& operator=(const CurlPublisher&) = delete;

  Submitted Submit(const OutgoingMessage& message) override {
    const std::size_t size = HeldSize(message);
    if (!options_.hold.HasRoom(held_messages_ + answers_.size(), held_bytes_, size)) return Submitted::kFull;
    if (failed_keys_.Has(message.topic, message.key)) {
      answers_.push_back(HeldBackDelivery(message.token));
      return Submitted::kTaken;
    }
    std::string name = fmt::format("{}:{}{}", message.topic.size(), message.topic, message.key);
    Lane& lane = lanes_[name];
    if (lane.jobs.empty()) {
      lane.name = std::move(name);
      ready_.push_back(&lane);
    }
    lane.jobs.emplace_back(message);
    ++held_messages_;
    held_bytes_ += size;
    return Submitted::kTaken;
  }

  void Collect(std::vector<Delivery>& out, milliseconds wait) override {
    const BootTime deadline = clock_.SinceBoot() + wait;
    while (true) {
      Perform();
      if (!answers_.empty()) return HandOut(out);
      const BootTime left = deadline - clock_.SinceBoot();
      if (left.count() <= 0 || !WaitForNews(left)) return;
    }
  }

  void Abandon() override {
    for (Transfer& transfer : transfers_) {
      if (transfer.lane == nullptr) continue;
      transfer.lane->jobs.front().maybe_taken |= AnythingSent(transfer);
      curl_multi_remove_handle(multi_.get(), transfer.easy.get());
      Rest(transfer);
    }
    for (auto& [name, lane] : lanes_) {
      for (const Job& job : lane.jobs) {
        answers_.push_back(AbandonedDelivery(
            job.message.token, job.maybe_taken ? DeliveryStatus::kPossiblyPersisted : DeliveryStatus::kNotPersisted));
      }
    }
    ready_.clear();
    lanes_.clear();
    held_messages_ = 0;
    held_bytes_ = 0;
  }

  void Interrupt() override {
    interrupted_ = true;
    curl_multi_wakeup(multi_.get());  // the one call that libcurl permits from another thread
  }

  PublisherHealth health() const override {
    const std::lock_guard lock(health_mutex_);
    return health_;
  }

  std::uint64_t resent_count() const override { return resent_; }

 private:
  void Prepare(Transfer& transfer) const {
    transfer.easy.reset(curl_easy_init());
    CURL* const easy = transfer.easy.get();
    SEALANE_ASSERT(easy != nullptr, "libcurl has memory");
    curl_easy_setopt(easy, CURLOPT_URL, options_.url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "sealane");
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.timeout.count()));
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &DiscardBody);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfer);
    if (!options_.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);  // with the user and password of the URL, if any
  }

  void Perform() {
    StartWhatIsReady();
    int running = 0;
    curl_multi_perform(multi_.get(), &running);
    int left = 0;
    while (CURLMsg* const news = curl_multi_info_read(multi_.get(), &left)) {
      if (news->msg == CURLMSG_DONE) Finish(news->easy_handle, news->data.result);
    }
    StartWhatIsReady();
  }

  // While the receiver is in trouble, one request at a time finds out whether it is over.
  void StartWhatIsReady() {
    while (!ready_.empty() && !idle_.empty() && clock_.SinceBoot() >= hold_until_) {
      if (in_trouble_ && idle_.size() < transfers_.size()) return;
      Lane& lane = *ready_.front();
      ready_.pop_front();
      Start(lane);
    }
  }

  void Start(Lane& lane) {
    Transfer& transfer = *idle_.back();
    idle_.pop_back();
    transfer.lane = &lane;
    const Job& job = lane.jobs.front();
    if (job.maybe_taken) ++resent_;
    for (const std::string& line : http::HeaderLines(job.message, options_)) {
      // Appending to a list returns its head; only the first call makes one.
      curl_slist* const head = curl_slist_append(transfer.headers.get(), line.c_str());
      SEALANE_ASSERT(head != nullptr, "libcurl has memory");
      static_cast<void>(transfer.headers.release());
      transfer.headers.reset(head);
    }
    CURL* const easy = transfer.easy.get();
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers.get());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, job.message.value.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(job.message.value.size()));
    curl_multi_add_handle(multi_.get(), easy);
  }

  static bool AnythingSent(const Transfer& transfer) {
    long request_bytes = 0;
    curl_easy_getinfo(transfer.easy.get(), CURLINFO_REQUEST_SIZE, &request_bytes);
    return request_bytes > 0;
  }

  void Rest(Transfer& transfer) {
    transfer.lane = nullptr;
    transfer.headers.reset();
    idle_.push_back(&transfer);
  }

  void Finish(CURL* easy, CURLcode result) {
    char* tag = nullptr;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &tag);
    Transfer& transfer = *reinterpret_cast<Transfer*>(tag);
    Answer answer{.transport = result, .request_sent = AnythingSent(transfer)};
    curl_off_t retry_after = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer.status);
    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after);
    answer.retry_after = std::chrono::seconds{retry_after};
    curl_multi_remove_handle(multi_.get(), easy);
    Lane& lane = *transfer.lane;
    Rest(transfer);

    const AnswerVerdict verdict = http::JudgeAnswer(answer);
    switch (verdict.kind) {
      case AnswerVerdict::Kind::kPersisted:
        EndTrouble();
        return Persisted(lane);
      case AnswerVerdict::Kind::kTryAgain:
        lane.jobs.front().maybe_taken |= verdict.unknown;
        // To the end: when only this message makes the receiver stumble, another one finds out that it is well.
        ready_.push_back(&lane);
        return BeginTrouble(*verdict.problem, answer.retry_after);
      case AnswerVerdict::Kind::kFailed:
        EndTrouble();
        return Failed(lane, verdict);
    }
  }

  void Persisted(Lane& lane) {
    answers_.push_back({.token = lane.jobs.front().message.token});
    Forget(lane);
    if (lane.jobs.empty()) {
      lanes_.erase(lanes_.find(lane.name));
    } else {
      ready_.push_back(&lane);
    }
  }

  void Failed(Lane& lane, const AnswerVerdict& verdict) {
    const HeldMessage& message = lane.jobs.front().message;
    failed_keys_.Add(message.topic, message.key);
    answers_.push_back({.token = message.token,
                        .status = DeliveryStatus::kNotPersisted,
                        .failure = verdict.failure,
                        .code = verdict.problem->code(),
                        .message = verdict.problem->message()});
    Forget(lane);
    while (!lane.jobs.empty()) {
      answers_.push_back(HeldBackDelivery(lane.jobs.front().message.token));
      Forget(lane);
    }
    lanes_.erase(lanes_.find(lane.name));
  }

  void Forget(Lane& lane) {
    held_bytes_ -= lane.jobs.front().message.size;
    --held_messages_;
    lane.jobs.pop_front();
  }

  void BeginTrouble(const Error& problem, std::chrono::seconds retry_after) {
    const bool misconfigured = problem.kind() == ErrorKind::kMisconfigured;
    const BootTime now = clock_.SinceBoot();
    in_trouble_ = true;
    // Requests that were under way together fail together: that is one step of the pause, not many.
    if (now >= hold_until_) {
      const milliseconds pause = misconfigured ? std::max(retry_pause_, options_.misconfigured_retry) : retry_pause_;
      hold_until_ = now + pause;
      retry_pause_ = std::min(retry_pause_ * 2, options_.retry_max);
    }
    hold_until_ = std::max(hold_until_, now + std::min<BootTime>(retry_after, kRetryAfterMax));
    SetHealth({.state = misconfigured ? PublisherHealth::State::kMisconfigured : PublisherHealth::State::kUnreachable,
               .problem = problem});
  }

  void EndTrouble() {
    if (!in_trouble_) return;
    in_trouble_ = false;
    hold_until_ = BootTime{0};
    retry_pause_ = options_.retry_min;
    SetHealth({});
  }

  void HandOut(std::vector<Delivery>& out) {
    std::move(answers_.begin(), answers_.end(), std::back_inserter(out));
    answers_.clear();
    failed_keys_.Clear();
  }

  // Waits for an answer or for the next attempt to be due. False when it was interrupted or the time is over.
  bool WaitForNews(BootTime left) {
    const BootTime now = clock_.SinceBoot();
    const bool attempt_is_due_first = !ready_.empty() && hold_until_ > now && hold_until_ - now < left;
    const BootTime wait = std::min<BootTime>(attempt_is_due_first ? hold_until_ - now : left, kPollMax);
    int active = 0;
    if (!interrupted_) {
      curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(std::chrono::ceil<milliseconds>(wait).count()),
                      &active);
    }
    if (interrupted_.exchange(false)) return false;
    // libcurl also wakes up for its own timers, without any active descriptor.
    return clock_.SinceBoot() > now;
  }

  void SetHealth(PublisherHealth health) {
    const std::lock_guard lock(health_mutex_);
    health_ = std::move(health);
  }

  const HttpOptions options_;
  Clock& clock_;
  // Of the thread that submits and collects. Lanes stay where they are while they have messages.
  std::unordered_map<std::string, Lane> lanes_;
  std::deque<Lane*> ready_;  // lanes whose first message may be sent
  std::size_t held_messages_ = 0;
  std::size_t held_bytes_ = 0;
  std::vector<Delivery> answers_;
  FailedKeys failed_keys_;
  bool in_trouble_ = false;
  BootTime hold_until_{0};
  milliseconds retry_pause_;
  http::MultiHandle multi_;
  std::vector<Transfer> transfers_;  // never grows: handles know their place
  std::vector<Transfer*> idle_;
  // Of any thread.
  std::atomic<bool> interrupted_{false};
  std::atomic<std::uint64_t> resent_{0};
  mutable std::mutex health_mutex_;
  PublisherHealth health_;  // guarded by health_mutex_
};

Status CheckOptions(const HttpOptions& options) {
  const auto invalid = [](std::string_view field, std::string message, std::string hint) {
    return Error(ErrorKind::kMisconfigured, "invalid_http_options", std::move(message))
        .WithField(std::string(field))
        .WithHint(std::move(hint));
  };
  SEALANE_RETURN_IF_ERROR(http::CheckUrl(options.url));
  if (options.connections_max < 1 || options.connections_max > 1'000) {
    return invalid("connections_max", fmt::format("{} connections are not possible", options.connections_max),
                   "choose 1 to 1000");
  }
  if (options.timeout.count() <= 0 || options.connect_timeout.count() <= 0 || options.retry_min.count() <= 0 ||
      options.retry_max < options.retry_min) {
    return invalid("timeout", "timeouts and pauses are positive, and the longest pause is the longest",
                   "leave them out to get the defaults");
  }
  return http::CheckHeaders(options.headers);
}

}  // namespace

Result<std::unique_ptr<HttpPublisher>> OpenHttpPublisher(const HttpOptions& options, Clock& clock) {
  SEALANE_RETURN_IF_ERROR(CheckOptions(options));
  SEALANE_RETURN_IF_ERROR(http::PrepareLibrary());
  return std::unique_ptr<HttpPublisher>(std::make_unique<CurlPublisher>(options, clock));
}

}  // namespace sealane
