#include "serve/webhook_work.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include "base/log.hpp"
#include "core/json_object.hpp"

namespace sealane {
namespace {

WebhookAnswer Accepted(const TakenWebhook& taken) {
  JsonObject json;
  json.Text("event_id", taken.event_id);
  json.Raw("duplicate", taken.fate == WebhookFate::kNew ? "false" : "true");
  return {.status = 200, .code = {}, .body = std::move(json).Close() + '\n'};
}

WebhookAnswer ComeBack(std::string_view code, std::string_view message) {
  WebhookAnswer answer = RefuseWebhook(503, code, message);
  answer.retry_later = true;
  return answer;
}

}  // namespace

WebhookWork::WebhookWork(const WebhookServerOptions& options, const std::vector<WebhookRule>& rules,
                         const std::function<std::unique_ptr<WebhookSink>()>& make_sink, Clock& clock)
    : options_(options), clock_(clock), jobs_(options.requests_max) {
  for (const WebhookRule& rule : rules) providers_[rule.provider].provider = rule.provider;
  for (std::size_t i = 0; i < options_.workers; ++i) {
    sinks_.push_back(make_sink());
    threads_.emplace_back([this, sink = sinks_.back().get()](std::stop_token stop) { Work(*sink, stop); });
    ::pthread_setname_np(threads_.back().native_handle(), "hooks");
  }
}

WebhookWork::~WebhookWork() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

void WebhookWork::Take(WebhookDelivery delivery, Answered answered) {
  auto job = std::make_shared<Job>(Job{std::move(delivery), std::move(answered), clock_.SinceBoot()});
  // There is room for every request that may be under way.
  const PushOutcome pushed = jobs_.PushFor(job, std::chrono::nanoseconds{0}, {});
  if (pushed == PushOutcome::kPushed) return;
  const WebhookAnswer answer = ComeBack("busy", "too many requests are under way");
  CountRefusal(job->delivery.rule, answer);
  job->answered(answer);
}

void WebhookWork::CountRefusal(const WebhookRule* rule, const WebhookAnswer& answer) {
  const std::lock_guard lock(mutex_);
  if (rule == nullptr) {
    ++strays_[answer.code];
  } else if (answer.status == 503) {
    ++Of(*rule).deferred;
  } else {
    ++Of(*rule).refused[answer.code];
  }
}

ReceiveStats WebhookWork::stats() const {
  const std::lock_guard lock(mutex_);
  ReceiveStats stats{
      .strays = strays_, .store_reachable = store_reachable_, .problem_code = problem_code_, .problem = problem_};
  for (const auto& [name, provider] : providers_) stats.providers.push_back(provider);
  return stats;
}

void WebhookWork::Work(WebhookSink& sink, std::stop_token stop) {
  while (!stop.stop_requested()) {
    // A store that is away is looked for between deliveries too: while this server says that it is not ready, nobody
    // may send one.
    if (!sink.reached() && !IsDown()) {
      const Status reached = sink.Reach();
      Note(reached ? nullptr : &reached.error());
    }
    const auto job = sink.reached() ? jobs_.Pop(stop) : jobs_.PopFor(options_.outage_retry, stop);
    if (!job) continue;
    WebhookAnswer answer = Perform(sink, (*job)->delivery);
    if (answer.status < 300) {
      const double seconds = std::chrono::duration<double>(clock_.SinceBoot() - (*job)->since).count();
      const std::lock_guard lock(mutex_);
      Of(*(*job)->delivery.rule).seconds.Add(seconds);
    }
    (*job)->answered(std::move(answer));
  }
}

WebhookAnswer WebhookWork::Perform(WebhookSink& sink, const WebhookDelivery& delivery) {
  if (IsDown()) {
    WebhookAnswer answer = ComeBack("store_unavailable", "this cannot be stored right now");
    CountRefusal(delivery.rule, answer);
    return answer;
  }
  return Answer(*delivery.rule, sink.Take(delivery));
}

WebhookAnswer WebhookWork::Answer(const WebhookRule& rule, const Result<TakenWebhook>& taken) {
  if (!taken && taken.error().kind() == ErrorKind::kRejected) {
    const Error& error = taken.error();
    // The message names fields and places, never their content.
    WebhookAnswer answer =
        RefuseWebhook(error.code() == "payload_too_large" ? 413 : 400, error.code(), error.message());
    CountRefusal(&rule, answer);
    return answer;
  }
  if (!taken) {
    const Error& error = taken.error();
    // Another transaction was in the way: that says nothing about the store.
    const bool collided = error.code() == "in_progress" || error.kind() == ErrorKind::kConflict;
    if (!collided) Note(&error);
    WebhookAnswer answer = collided ? ComeBack("in_progress", "the same delivery is being taken right now")
                                    : ComeBack("store_unavailable", "this cannot be stored right now");
    CountRefusal(&rule, answer);
    return answer;
  }
  Note(nullptr);
  const std::lock_guard lock(mutex_);
  ProviderStats& stats = Of(rule);
  switch (taken->fate) {
    case WebhookFate::kNew:
      ++stats.accepted;
      return Accepted(*taken);
    case WebhookFate::kDuplicate:
      ++stats.duplicates;
      return Accepted(*taken);
    case WebhookFate::kConflict:
      break;
  }
  ++stats.conflicts;
  LogWarning("a provider used an event id again, for another body", {{"provider", rule.provider}});
  if (rule.accept_conflicts) return Accepted(*taken);
  return RefuseWebhook(409, "event_id_reused", "an event with this id and another body was taken before");
}

void WebhookWork::Note(const Error* error) {
  const std::lock_guard lock(mutex_);
  if (error == nullptr) {
    if (!problem_.empty()) LogInfo("the store is back");
    store_reachable_ = true;
    problem_code_.clear();
    problem_.clear();
    down_until_ = BootTime{};
    return;
  }
  if (problem_code_ != error->code()) {
    LogWarning("deliveries cannot be stored", {{"code", error->code()}, {"error", error->message()}});
  }
  store_reachable_ = false;
  problem_code_ = error->code();
  problem_ = error->message();
  down_until_ = clock_.SinceBoot() + options_.outage_retry;
}

bool WebhookWork::IsDown() const {
  const std::lock_guard lock(mutex_);
  return clock_.SinceBoot() < down_until_;
}

}  // namespace sealane
