#include "serve/webhook_sink.hpp"

#include <optional>

#include <fmt/format.h>

#include "sealane/idempotency.hpp"

#include "base/crash_point.hpp"

namespace sealane {
namespace {

class OutboxSink final : public WebhookSink {
 public:
  OutboxSink(OutboxSinkOptions options, OpenOutbox open, const Outbox& outbox, Clock& clock)
      : options_(std::move(options)), open_(std::move(open)), outbox_(outbox), clock_(clock) {}

  Result<TakenWebhook> Take(const WebhookDelivery& delivery) override {
    // Refused before anything is opened: what is wrong with an event does not depend on the store.
    SEALANE_ASSIGN_OR_RETURN(const NewEntry entry, outbox_.Admit(delivery.event));
    const IdempotencyClaim claim{.tenant = delivery.event.tenant,
                                 .key = fmt::format("receive/{}/{}", delivery.rule->provider, delivery.id),
                                 .request_hash = delivery.body_hash,
                                 .remember = options_.remember};
    const BootTime begin = clock_.SinceBoot();
    int tries_left = kTries;
    while (true) {
      auto taken = TryOnce(entry, claim);
      if (taken && *taken) return **std::move(taken);
      if (taken) {
        if (clock_.SinceBoot() - begin >= options_.in_progress_max) {
          return Error(ErrorKind::kUnavailable, "in_progress", "the same delivery is being taken right now");
        }
        clock_.SleepFor(options_.in_progress_pause, {});
        continue;
      }
      // A connection that broke while nobody used it is no reason to refuse, and what is in doubt is found out by
      // doing it again: the id makes that safe.
      const ErrorKind kind = taken.error().kind();
      if (kind == ErrorKind::kUnavailable || kind == ErrorKind::kInDoubt) store_.reset();
      const bool again =
          kind == ErrorKind::kUnavailable || kind == ErrorKind::kInDoubt || kind == ErrorKind::kConflict;
      if (!again || --tries_left == 0 || opened_now_) return taken.error();
    }
  }

  Status Reach() override {
    if (store_ != nullptr) return Ok();
    SEALANE_ASSIGN_OR_RETURN(store_, open_());
    return Ok();
  }

  bool reached() const override { return store_ != nullptr; }

 private:
  static constexpr int kTries = 5;

  // Empty: somebody else is at it.
  Result<std::optional<TakenWebhook>> TryOnce(const NewEntry& entry, const IdempotencyClaim& claim) {
    opened_now_ = store_ == nullptr;
    SEALANE_RETURN_IF_ERROR(Reach());
    opened_now_ = false;
    SEALANE_ASSIGN_OR_RETURN(const auto transaction, store_->Begin());
    const Idempotency idempotency;
    SEALANE_ASSIGN_OR_RETURN(const IdempotencyOutcome outcome, idempotency.Begin(*transaction, claim));
    switch (outcome.state) {
      case IdempotencyState::kReplay:
        return std::optional(TakenWebhook{.fate = WebhookFate::kDuplicate,
                                          .event_id = outcome.response ? outcome.response->body : std::string()});
      case IdempotencyState::kConflict:
        return std::optional(TakenWebhook{.fate = WebhookFate::kConflict});
      case IdempotencyState::kInProgress:
        return std::optional<TakenWebhook>();
      case IdempotencyState::kNew:
        break;
    }
    SEALANE_ASSIGN_OR_RETURN(const auto appended, transaction->Append({&entry, 1}));
    const std::string id = appended.at(0).id.ToString();
    SEALANE_RETURN_IF_ERROR(idempotency.Complete(*transaction, claim, {.status = 200, .body = id}));
    CrashPoint("receive.before_commit");
    SEALANE_RETURN_IF_ERROR(transaction->Commit());
    CrashPoint("receive.after_commit");
    if (options_.committed) options_.committed();
    return std::optional(TakenWebhook{.fate = WebhookFate::kNew, .event_id = id});
  }

  const OutboxSinkOptions options_;
  const OpenOutbox open_;
  const Outbox& outbox_;
  Clock& clock_;
  std::unique_ptr<OutboxStore> store_;
  bool opened_now_ = false;  // the failure was one of opening: the store is away, not only a connection
};

}  // namespace

std::unique_ptr<WebhookSink> MakeOutboxSink(OutboxSinkOptions options, OpenOutbox open, const Outbox& outbox,
                                            Clock& clock) {
  return std::make_unique<OutboxSink>(std::move(options), std::move(open), outbox, clock);
}

}  // namespace sealane
