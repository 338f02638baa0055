#include "kafka/publisher_core.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "kafka/message_size.hpp"
#include "kafka/producer_conf.hpp"

namespace sealane::kafka {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kTopicsMax = 10'000;
// How often something that is not announced by news is looked after: answers to ask for again, deadlines.
constexpr milliseconds kLookPause{50};
// How long requests under way may still be answered before the truth about them is given up.
constexpr milliseconds kRetireGrace{2'000};

void* OpaqueOf(std::uint32_t slot) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(slot));
}

}  // namespace

// ---- life ---------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<Publisher>> PublisherCore::Open(const KafkaOptions& options, Clock& clock) {
  SEALANE_ASSIGN_OR_RETURN(Conf conf, MakeProducerConf(options));
  SEALANE_ASSIGN_OR_RETURN(WakeUp wake, WakeUp::Make());
  std::unique_ptr<PublisherCore> core(new PublisherCore(options, clock, std::move(conf), std::move(wake)));
  SEALANE_ASSIGN_OR_RETURN(core->batching_,
                           Producer::Make(*core->conf_, Producer::Kind::kBatching, 0, core->wake_.descriptor()));
  return std::unique_ptr<Publisher>(std::move(core));
}

PublisherCore::PublisherCore(const KafkaOptions& options, Clock& clock, Conf conf, WakeUp wake)
    : options_(options),
      clock_(clock),
      conf_(std::move(conf)),
      configured_batch_bytes_(NumberOf(*conf_, "batch.size")),
      partitioner_(PartitionerOf(PropertyOf(*conf_, "partitioner"))),
      wake_(std::move(wake)),
      health_(PropertyOf(*conf_, "sasl.mechanism")),
      topics_(kTopicsMax) {}

PublisherCore::~PublisherCore() = default;

// ---- ways of a message --------------------------------------------------------------------------------------------

Submitted PublisherCore::Submit(const OutgoingMessage& message) {
  const std::size_t bytes = HeldSize(message);
  if (phase_ != Phase::kRunning || IsFull(bytes)) return Submitted::kFull;
  Topic* const topic = topics_.FindOrMake(message.topic);
  if (topic == nullptr) return Submitted::kFull;
  if (slots_.count() == 0) last_progress_ = clock_.SinceBoot();
  if (failed_keys_.Has(message.topic, message.key)) {
    Refuse(message.token, HeldBack());
    return Submitted::kTaken;
  }

  if (topic->state != Topic::State::kOpen) {
    const BootTime now = clock_.SinceBoot();
    const bool is_new = topic->state == Topic::State::kAsking && topic->asking_since == BootTime{0};
    // Not before the caller knows of those that were refused: the next of the same key might be taken, and be first.
    const bool may_reopen = topic->state == Topic::State::kClosed && now >= topic->look_again && ready_.empty();
    if (is_new || may_reopen) StartAsking(*topic, now);
    if (topic->state == Topic::State::kClosed) {
      const Topic::Closure& closure = topic->closure;
      Refuse(message.token, {DeliveryStatus::kNotPersisted, closure.failure, closure.code, closure.message});
      return Submitted::kTaken;
    }
  } else if (topic->message_bytes_max != 0 && bytes > topic->message_bytes_max) {
    // HeldSize() is never less than the size on the wire, so the exact size is counted for few.
    if (const std::size_t size = WireSizeOf(message); size > topic->message_bytes_max) {
      failed_keys_.Add(message.topic, message.key);
      Refuse(message.token, {DeliveryStatus::kNotPersisted, FailureClass::kRejected, "message_too_large",
                             fmt::format("{} bytes, and topic '{}' takes {} (max.message.bytes)", size, topic->name,
                                         topic->message_bytes_max)});
      return Submitted::kTaken;
    }
  }
  const std::size_t partition = PartitionOf(*topic, message.key);
  if (!topic->held.empty() || !MayLeave(*topic) || topic->warmth.IsWarming(partition)) {
    Hold(*topic, message, bytes);
    return Submitted::kTaken;
  }
  const std::uint32_t slot = slots_.Take(message.token, *topic, bytes);
  if (Send(*topic, slot, message.key, message.value, message.headers) == Sent::kNotNow) {
    slots_.Release(slot);
    return Submitted::kFull;
  }
  return Submitted::kTaken;
}

bool PublisherCore::IsFull(std::size_t bytes) const {
  // One message is always taken, however large: otherwise it could never be rejected.
  const std::size_t count = slots_.count() + ready_.size();
  return count >= options_.messages_max || (count != 0 && slots_.bytes() + bytes > options_.bytes_max);
}

bool PublisherCore::MayLeave(Topic& topic) {
  if (topic.state != Topic::State::kOpen || phase_ != Phase::kRunning) return false;
  // Alone also means that nothing stands behind it that could be persisted when it is not.
  const bool alone = topic.lane == Producer::Kind::kSingle || topic.lane != topic.wanted_lane;
  if (topic.in_flight != 0 && alone) return false;
  if (topic.lane != topic.wanted_lane) {
    topic.lane = topic.wanted_lane;
    topic.handle.reset();
  }
  return true;
}

void PublisherCore::Hold(Topic& topic, const OutgoingMessage& message, std::size_t bytes) {
  HeldMessage& held = topic.held.emplace_back();
  held.slot = slots_.Take(message.token, topic, bytes);
  held.key = message.key;
  held.value = message.value;
  held.headers.reserve(message.headers.size());
  for (const HeaderView& header : message.headers) held.headers.emplace_back(header.name, header.value);
  NeedsLook(topic);
}

PublisherCore::Sent PublisherCore::Send(Topic& topic, std::uint32_t slot, std::string_view key,
                                        std::string_view value, std::span<const HeaderView> headers) {
  Producer* const producer = ProducerOf(topic);
  if (producer == nullptr) return Sent::kNotNow;
  if (topic.handle == nullptr) topic.handle = producer->OpenTopic(topic.name);
  const rd_kafka_resp_err_t error = topic.handle == nullptr
                                        ? rd_kafka_last_error()
                                        : producer->Produce(*topic.handle, key, value, headers, OpaqueOf(slot));
  switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      ++produced_;
      ++topic.in_flight;
      if (topic.lane == Producer::Kind::kBatching) {
        slots_[slot].partition = PartitionOf(topic, key);
        topic.warmth.OnSent(slots_[slot].partition);
      }
      return Sent::kYes;
    case RD_KAFKA_RESP_ERR__QUEUE_FULL:
      return Sent::kNotNow;
    case RD_KAFKA_RESP_ERR__FATAL:
      BeginRetiring("producer_rebuilt", "the producer cannot go on", false);
      return Sent::kNotNow;
    default:
      break;
  }
  const KafkaFailure failure = ClassifyKafkaError(error);
  const std::string message = fmt::format("topic '{}': {}", topic.name, rd_kafka_err2str(error));
  failed_keys_.Add(topic.name, key);
  Resolve(slot, {DeliveryStatus::kNotPersisted, failure.failure, failure.code, message});
  if (failure.failure == FailureClass::kForbidden || failure.code == "unknown_topic") Close(topic, failure, message);
  return Sent::kFailed;
}

std::size_t PublisherCore::PartitionOf(const Topic& topic, std::string_view key) const {
  // Only asked to keep messages from partitions that are not warm.
  return topic.warmth.AllWarm() ? 0 : partitioner_(key, topic.warmth.partitions());
}

void PublisherCore::Flush(Topic& topic) {
  std::deque<HeldMessage> waiting;
  std::vector<bool> blocked(topic.warmth.partitions() + 1);
  while (!topic.held.empty() && MayLeave(topic)) {
    HeldMessage held = std::move(topic.held.front());
    topic.held.pop_front();
    if (failed_keys_.Has(topic.name, held.key)) {
      Resolve(held.slot, HeldBack());
      continue;
    }
    const std::size_t partition = PartitionOf(topic, held.key);
    // Others of a partition that waits are not let past each other either.
    if (topic.lane == Producer::Kind::kBatching && (blocked[partition] || topic.warmth.IsWarming(partition))) {
      blocked[partition] = true;
      waiting.push_back(std::move(held));
      continue;
    }
    if (SendHeld(topic, held) == Sent::kNotNow) {
      topic.held.push_front(std::move(held));
      break;
    }
  }
  topic.held.insert(topic.held.begin(), std::make_move_iterator(waiting.begin()),
                    std::make_move_iterator(waiting.end()));
  // Sending can close the topic or stop the producer; then nothing waits any more.
  if (topic.state == Topic::State::kClosed) {
    FailHeld(topic,
             {DeliveryStatus::kNotPersisted, topic.closure.failure, topic.closure.code, topic.closure.message});
  } else if (phase_ == Phase::kRetiring) {
    FailHeld(topic, RetireFailure());
  }
}

PublisherCore::Sent PublisherCore::SendHeld(Topic& topic, const HeldMessage& held) {
  std::vector<HeaderView> headers;
  headers.reserve(held.headers.size());
  for (const auto& [name, value] : held.headers) headers.push_back({name, value});
  return Send(topic, held.slot, held.key, held.value, headers);
}

PublisherCore::Failure PublisherCore::RetireFailure() const {
  return {DeliveryStatus::kNotPersisted, FailureClass::kOutage, retire_code_, retire_reason_};
}

void PublisherCore::Resolve(std::uint32_t slot, Failure failure) {
  Refuse(slots_[slot].token, std::move(failure));
  slots_.Release(slot);
}

void PublisherCore::HoldBackFollowers() {
  if (failed_keys_.empty()) return;
  // Every topic that holds messages is among these.
  for (Topic* const topic : look_) {
    std::erase_if(topic->held, [&](const HeldMessage& held) {
      if (!failed_keys_.Has(topic->name, held.key)) return false;
      Resolve(held.slot, HeldBack());
      return true;
    });
  }
}

PublisherCore::Failure PublisherCore::HeldBack() {
  const Delivery delivery = HeldBackDelivery(0);
  return {delivery.status, delivery.failure, "held_back", delivery.message};
}

void PublisherCore::Refuse(std::uint64_t token, Failure failure) {
  sink_->push_back({.token = token,
                    .status = failure.status,
                    .failure = failure.failure,
                    .code = std::string(failure.code),
                    .message = std::move(failure.message)});
}

// ---- collecting ---------------------------------------------------------------------------------------------------

void PublisherCore::Collect(std::vector<Delivery>& out, milliseconds wait) {
  const std::size_t before = out.size();
  std::move(ready_.begin(), ready_.end(), std::back_inserter(out));
  ready_.clear();
  sink_ = &out;
  brokers_are_silent_ = false;
  milliseconds left = wait;
  while (true) {
    wake_.Clear();
    Pump(batching_.get());
    Pump(single_.get());
    Advance();
    // What was abandoned comes out of this one Collect(), even if that takes a moment longer. A new producer that
    // cannot be made is not waited for.
    const bool must_stay = abandoning_ && phase_ == Phase::kRetiring && produced_ != 0;
    if (!must_stay && (out.size() > before || interrupted_.load() || left <= milliseconds{0})) break;

    const milliseconds slice = must_stay ? kLookPause : std::min(left, LookIn());
    const BootTime since = clock_.SinceBoot();
    const bool rang = wake_.Wait(slice);
    const auto waited = std::chrono::duration_cast<milliseconds>(clock_.SinceBoot() - since);
    left -= rang ? std::min(waited, slice) : slice;
  }
  abandoning_ = false;
  interrupted_.store(false);
  // The caller knows of every failure when this returns, and what it submitted behind one before it knew comes back.
  HoldBackFollowers();
  failed_keys_.Clear();
  sink_ = &ready_;
}

void PublisherCore::Interrupt() {
  interrupted_.store(true);
  wake_.Ring();
}

void PublisherCore::Pump(Producer* producer) {
  if (producer == nullptr) return;
  while (const Event event = producer->Next()) {
    switch (rd_kafka_event_type(event.get())) {
      case RD_KAFKA_EVENT_DR:
        OnReports(*event);
        break;
      case RD_KAFKA_EVENT_ERROR:
        OnError(*producer, *event);
        break;
      case RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT:
        OnAnswer(*producer, *event);
        break;
      case RD_KAFKA_EVENT_CREATETOPICS_RESULT:
        OnCreated(*event);
        break;
      default:
        break;  // nothing else was asked for
    }
  }
}

void PublisherCore::OnReports(rd_kafka_event_t& event) {
  // One event carries the reports of one batch.
  const bool alone = rd_kafka_event_message_count(&event) == 1;
  bool any_persisted = false;
  while (const rd_kafka_message_t* message = rd_kafka_event_message_next(&event)) {
    const auto slot = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(message->_private));
    Topic& topic = *slots_[slot].topic;
    --topic.in_flight;
    --produced_;
    any_persisted = any_persisted || message->err == RD_KAFKA_RESP_ERR_NO_ERROR;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR && message->offset >= 0) {
      OnPersisted(topic, slot);
    } else {
      topic.warmth.OnFailed(slots_[slot].partition);
      if (!topic.held.empty()) {
        failed_keys_.Add(topic.name, {static_cast<const char*>(message->key), message->key_len});
      }
      Resolve(slot, JudgeReport(topic, *message, alone));
    }
    if (!topic.held.empty()) NeedsLook(topic);
  }
  if (any_persisted) {
    last_progress_ = clock_.SinceBoot();
    health_.OnProgress();
  }
}

void PublisherCore::OnPersisted(Topic& topic, std::uint32_t slot) {
  sink_->push_back({.token = slots_[slot].token});
  if (topic.lane == Producer::Kind::kBatching) topic.warmth.OnPersisted(slots_[slot].partition);
  slots_.Release(slot);
  if (topic.lane == Producer::Kind::kBatching) return;
  if (topic.single_left > 0) --topic.single_left;
  if (topic.single_left == 0 && !topic.always_single) topic.wanted_lane = Producer::Kind::kBatching;
}

PublisherCore::Failure PublisherCore::JudgeReport(Topic& topic, const rd_kafka_message_t& message, bool alone) {
  if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    // librdkafka concludes from a later batch's acknowledgement that this one was persisted too, and a broker that
    // knew nothing of the producer proves that wrong (see PartitionWarmth). Sent again, it is doubled at worst.
    return {DeliveryStatus::kPossiblyPersisted, FailureClass::kOutage, "unconfirmed",
            fmt::format("topic '{}': acknowledged without an offset", topic.name)};
  }
  const KafkaFailure failure = ClassifyKafkaError(message.err);
  const bool certain = rd_kafka_message_status(&message) == RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
  Failure judged{certain ? DeliveryStatus::kNotPersisted : DeliveryStatus::kPossiblyPersisted, failure.failure,
                 failure.code, fmt::format("topic '{}': {}", topic.name, rd_kafka_err2str(message.err))};
  if (phase_ == Phase::kRetiring && failure.failure == FailureClass::kOutage) {
    judged.code = retire_code_;
    judged.message = retire_reason_;
  } else if (failure.failure == FailureClass::kForbidden || failure.code == "unknown_topic") {
    Close(topic, failure, judged.message);
  } else if (failure.failure == FailureClass::kRejected && topic.lane == Producer::Kind::kBatching) {
    GoSingle(topic);
    if (!alone) {
      // Which of the batch is at fault is seen when each is sent alone.
      judged.failure = FailureClass::kOutage;
      judged.code = "batch_refused";
      judged.message += "; the messages of this batch are to be sent again, one by one";
    }
  }
  return judged;
}

void PublisherCore::OnError(Producer& producer, rd_kafka_event_t& event) {
  const rd_kafka_resp_err_t error = rd_kafka_event_error(&event);
  const char* const text = rd_kafka_event_error_string(&event);
  if (rd_kafka_event_error_is_fatal(&event) != 0 || error == RD_KAFKA_RESP_ERR__FATAL ||
      rd_kafka_fatal_error(producer.handle(), nullptr, 0) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    BeginRetiring("producer_rebuilt", fmt::format("{}: {}", NameOf(error), EscapeForTerminal(text)), false);
    return;
  }
  health_.OnBrokerError(error, text);
}

// ---- what is due --------------------------------------------------------------------------------------------------

void PublisherCore::Advance() {
  const BootTime now = clock_.SinceBoot();
  if (phase_ == Phase::kRetiring) {
    AdvanceRetiring(now);
  } else if (phase_ == Phase::kDraining && produced_ == 0) {
    ReplaceProducers();
  }
  AdvanceTopics(now);
  if (slots_.count() != 0 && health_.is_ready() && now - last_progress_ > options_.stall_after) {
    health_.OnSilence(Error(ErrorKind::kUnavailable, "broker_silent",
                            fmt::format("no answer from the brokers for {} ms, and {} messages wait",
                                        options_.stall_after.count(), slots_.count()))
                          .WithHint("look at the brokers and the network; what was submitted waits"));
  }
}

milliseconds PublisherCore::LookIn() const {
  if (!look_.empty() || phase_ != Phase::kRunning) return kLookPause;
  if (slots_.count() == 0 || !health_.is_ready()) return milliseconds::max();
  const auto silent = std::chrono::duration_cast<milliseconds>(clock_.SinceBoot() - last_progress_);
  return std::max(kLookPause, options_.stall_after - silent + kLookPause);
}

Producer* PublisherCore::ProducerOf(const Topic& topic) {
  if (topic.lane == Producer::Kind::kBatching) return batching_.get();
  if (single_ == nullptr) {
    auto made = Producer::Make(*conf_, Producer::Kind::kSingle, 0, wake_.descriptor());
    if (!made) {
      health_.OnMisconfigured(std::move(made).error());
      return nullptr;
    }
    single_ = std::move(made).value();
  }
  return single_.get();
}

// ---- starting over ------------------------------------------------------------------------------------------------

void PublisherCore::Abandon() {
  constexpr std::string_view kReason = "given up before it was acknowledged";
  abandoning_ = true;
  if (produced_ != 0) {
    // librdkafka's sequence has holes afterwards, so a new producer takes over.
    BeginRetiring("abandoned", std::string(kReason), true);
    return;
  }
  topics_.ForEach([&](Topic& topic) {
    FailHeld(topic, {DeliveryStatus::kNotPersisted, FailureClass::kOutage, "abandoned", std::string(kReason)});
  });
}

void PublisherCore::BeginRetiring(std::string_view code, std::string reason, bool give_up_in_flight) {
  if (phase_ != Phase::kRetiring) {
    phase_ = Phase::kRetiring;
    retire_until_ = clock_.SinceBoot() + kRetireGrace;
    gave_up_in_flight_ = false;
    if (!give_up_in_flight) {
      ++rebuilds_;
      LogWarning("a Kafka producer failed and is replaced", {{"reason", reason}, {"rebuilds", rebuilds_}});
    }
  } else if (!give_up_in_flight) {
    return;  // the reason that came first is the one that counts
  }
  retire_code_ = code;
  retire_reason_ = std::move(reason);
  gave_up_in_flight_ = gave_up_in_flight_ || give_up_in_flight;
  topics_.ForEach([&](Topic& topic) { FailHeld(topic, RetireFailure()); });
  for (Producer* producer : {batching_.get(), single_.get()}) {
    if (producer != nullptr) producer->GiveUp(gave_up_in_flight_);
  }
}

void PublisherCore::AdvanceRetiring(BootTime now) {
  if (produced_ == 0) {
    if (now >= retire_until_ || batching_ != nullptr) ReplaceProducers();
    return;
  }
  if (now >= retire_until_ && gave_up_in_flight_) {
    // librdkafka owes reports that do not come. Its queue goes with it, so none can come later either.
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].topic == nullptr) continue;
      --slots_[slot].topic->in_flight;
      Resolve(slot, {DeliveryStatus::kPossiblyPersisted, FailureClass::kOutage, retire_code_, retire_reason_});
    }
    produced_ = 0;
    ReplaceProducers();
    return;
  }
  if (now >= retire_until_) {
    gave_up_in_flight_ = true;
    retire_until_ = now + kRetireGrace;
  }
  // Again each time: a request that fails puts its messages back into the queue.
  for (Producer* producer : {batching_.get(), single_.get()}) {
    if (producer != nullptr) producer->GiveUp(gave_up_in_flight_);
  }
}

void PublisherCore::ReplaceProducers() {
  topics_.ForEach([](Topic& topic) {
    topic.warmth.Reset(topic.warmth.partitions());
    topic.handle.reset();
    topic.answer_pending = false;
  });
  single_.reset();
  batching_.reset();
  auto made = Producer::Make(*conf_, Producer::Kind::kBatching, batch_bytes_, wake_.descriptor());
  if (!made) {
    // It could be made once, so the machine is short of something. Tried again after a pause.
    health_.OnMisconfigured(std::move(made).error());
    phase_ = Phase::kRetiring;
    retire_until_ = clock_.SinceBoot() + kRetireGrace;
    return;
  }
  batching_ = std::move(made).value();
  phase_ = Phase::kRunning;
}

}  // namespace sealane::kafka
