#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sealane/clock.hpp"

#include "base/bounded_queue.hpp"
#include "serve/receive_stats.hpp"
#include "serve/webhook.hpp"
#include "serve/webhook_server.hpp"
#include "serve/webhook_sink.hpp"

namespace sealane {

/// The writing half of a webhook server: threads with a sink each, and what is counted. Thread-safe.
class WebhookWork {
 public:
  using Answered = std::function<void(WebhookAnswer)>;

  WebhookWork(const WebhookServerOptions& options, const std::vector<WebhookRule>& rules,
              const std::function<std::unique_ptr<WebhookSink>()>& make_sink, Clock& clock);
  /// Ends what is under way and answers nothing else.
  ~WebhookWork();

  /// `answered` is called once, from a worker. The caller bounds how many are under way.
  void Take(WebhookDelivery delivery, Answered answered);

  /// Counts an answer that was given without a sink; no rule: the request was for nobody.
  void CountRefusal(const WebhookRule* rule, const WebhookAnswer& answer);

  /// The share of the statistics that is known here.
  ReceiveStats stats() const;

 private:
  struct Job {
    WebhookDelivery delivery;
    Answered answered;
    BootTime since{};
  };
  void Work(WebhookSink& sink, std::stop_token stop);
  WebhookAnswer Perform(WebhookSink& sink, const WebhookDelivery& delivery);
  WebhookAnswer Answer(const WebhookRule& rule, const Result<TakenWebhook>& taken);
  void Note(const Error* error);
  bool IsDown() const;
  ProviderStats& Of(const WebhookRule& rule) { return providers_[rule.provider]; }

  const WebhookServerOptions options_;
  Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, ProviderStats> providers_;  // guarded by mutex_, as everything up to the queue
  std::map<std::string, std::uint64_t> strays_;
  bool store_reachable_ = false;
  std::string problem_code_;
  std::string problem_;
  BootTime down_until_{};
  BoundedQueue<std::shared_ptr<Job>> jobs_;
  std::vector<std::unique_ptr<WebhookSink>> sinks_;
  std::vector<std::jthread> threads_;
};

}  // namespace sealane
