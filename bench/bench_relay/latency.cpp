#include "bench_relay/latency.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "sealane/bell.hpp"
#include "sealane/outbox.hpp"

#include "bench_relay/fresh_relay.hpp"
#include "common/kafka_topic.hpp"
#include "common/session.hpp"
#include "core/wire.hpp"
#include "outbox/bell.hpp"

namespace sealane::bench {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kWaitMax{60};

Event MakeEvent(std::size_t number) {
  const std::string key = fmt::format("order-{}", number % 5'000);
  return {.topic = "orders",
          .key = key,
          .type = "OrderPlaced",
          .payload = fmt::format(R"({{"order":"{:0>10}","note":"{:x<267}"}})", number, ""),
          .aggregate = {"order", key, std::nullopt},
          .correlation_id = fmt::format("c-{}", number)};
}

double Milliseconds(steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

Latency Summarise(std::vector<double> milliseconds, steady_clock::duration took) {
  std::ranges::sort(milliseconds);
  const auto at = [&](std::size_t percent) { return milliseconds[milliseconds.size() * percent / 100]; };
  return {.p50_ms = at(50),
          .p99_ms = at(99),
          .rate = static_cast<double>(milliseconds.size()) * 1'000 / Milliseconds(took)};
}

struct Paced {
  std::size_t steps = 0;
  steady_clock::duration took{};
};

/// Calls `step` with 0, 1, 2, ... at an even pace. A step that is late is not waited for, so that the rate is kept; a
/// machine that cannot keep it gets three times the planned time and ends with fewer steps.
template <class Step>
Paced RunPaced(const Pace& pace, const Step& step) {
  const auto gap =
      std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(1.0 / pace.per_second));
  const auto began = steady_clock::now();
  const auto deadline = began + gap * static_cast<steady_clock::rep>(3 * pace.events);
  std::size_t done = 0;
  while (done < pace.events && steady_clock::now() < deadline) {
    std::this_thread::sleep_until(began + gap * static_cast<steady_clock::rep>(done));
    step(done++);
  }
  return {.steps = done, .took = steady_clock::now() - began};
}

/// When each event's delivery came out of the publisher. Written by the relay's thread.
class AckTimes {
 public:
  explicit AckTimes(std::size_t events) { times_.reserve(events); }

  void Note(const EventId& id, steady_clock::time_point at) {
    times_.emplace_back(id, at);
    count_.store(times_.size(), std::memory_order_release);
  }
  std::size_t count() const { return count_.load(std::memory_order_acquire); }
  /// Only when all have come.
  const std::vector<std::pair<EventId, steady_clock::time_point>>& all() const { return times_; }

 private:
  std::vector<std::pair<EventId, steady_clock::time_point>> times_;
  std::atomic<std::size_t> count_{0};
};

/// Passes everything on and notes the time of every persisted delivery.
class TimingPublisher final : public Publisher {
 public:
  TimingPublisher(std::unique_ptr<Publisher> inner, AckTimes& times) : inner_(std::move(inner)), times_(times) {}

  Submitted Submit(const OutgoingMessage& message) override {
    const Submitted submitted = inner_->Submit(message);
    if (submitted == Submitted::kTaken) ids_[message.token] = message.event_id;
    return submitted;
  }
  void Collect(std::vector<Delivery>& out, std::chrono::milliseconds wait) override {
    const std::size_t before = out.size();
    inner_->Collect(out, wait);
    const auto now = steady_clock::now();
    for (std::size_t i = before; i < out.size(); ++i) {
      const auto found = ids_.find(out[i].token);
      if (found == ids_.end()) continue;
      if (out[i].status == DeliveryStatus::kPersisted) times_.Note(found->second, now);
      ids_.erase(found);
    }
  }
  void Abandon() override { inner_->Abandon(); }
  void Interrupt() override { inner_->Interrupt(); }
  PublisherHealth health() const override { return inner_->health(); }

 private:
  std::unique_ptr<Publisher> inner_;
  AckTimes& times_;
  std::unordered_map<std::uint64_t, EventId> ids_;
};

template <class Condition>
void Await(const char* what, const Condition& condition) {
  const auto deadline = steady_clock::now() + kWaitMax;
  while (!condition()) {
    if (steady_clock::now() > deadline) Fail(fmt::format("waited in vain for {}", what));
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

/// Appends and commits one event after the other.
class Writer {
 public:
  explicit Writer(const std::string& url) : session_(url) {}

  void Write(std::size_t number, const Bell* bell) {
    session_.Exec("begin");
    const auto appended = outbox_.Append(session_.get(), MakeEvent(number));
    if (!appended) Fail(appended.error().ToString());
    session_.Exec("commit");
    committed_.emplace_back(appended->id, steady_clock::now());
    if (bell != nullptr) bell->Ring();
  }
  const std::vector<std::pair<EventId, steady_clock::time_point>>& committed() const { return committed_; }

 private:
  Session session_;
  Outbox outbox_{{.producer = "shop"}};
  std::vector<std::pair<EventId, steady_clock::time_point>> committed_;
};

}  // namespace

Latency CommitToAck(const Pace& pace, bool bell) {
  const FreshTopic topic(pace.broker_url);
  constexpr std::size_t kWarmUp = 100;  // connections, topics and plans
  AckTimes times(pace.events + kWarmUp);
  const Destination destination{pace.broker_url, topic.name(), WireProfile::kCloudEvents};
  const auto open_publisher = [&]() -> Result<std::unique_ptr<Publisher>> {
    auto publisher = PublisherTo(destination)();
    if (!publisher) return std::move(publisher).error();
    return std::unique_ptr<Publisher>(std::make_unique<TimingPublisher>(std::move(*publisher), times));
  };
  const std::unique_ptr<RouteRelay> relay = MakeRelay(pace.url, FreshRoute(destination), open_publisher);
  const std::string address = fmt::format("unix:/tmp/bench_relay.{}.bell", ::getpid());
  std::optional<Bell> ringer;
  std::unique_ptr<BellListener> listener;
  if (bell) {
    auto started = BellListener::Start(address, [&] { relay->Wake(); });
    auto opened = Bell::Open(address);
    if (!started || !opened) Fail("no bell at " + address);
    listener = std::move(*started);
    ringer = std::move(*opened);
  }
  const Bell* const rung = ringer ? &*ringer : nullptr;
  Writer writer(pace.url);
  std::jthread running([&](const std::stop_token& stop) { (void)relay->Run(stop); });

  for (std::size_t i = 0; i < kWarmUp; ++i) writer.Write(i, rung);
  Await("the first events", [&] { return times.count() >= kWarmUp; });
  const Paced paced = RunPaced(pace, [&](std::size_t i) { writer.Write(i, rung); });
  Await("the last events", [&] { return times.count() >= paced.steps + kWarmUp; });
  listener.reset();
  running.request_stop();
  running.join();

  std::unordered_map<std::string, steady_clock::time_point> acked;
  for (const auto& [id, at] : times.all()) acked.emplace(id.ToString(), at);
  std::vector<double> milliseconds;
  for (std::size_t i = kWarmUp; i < writer.committed().size(); ++i) {
    const auto& [id, at] = writer.committed()[i];
    milliseconds.push_back(Milliseconds(acked.at(id.ToString()) - at));
  }
  return Summarise(std::move(milliseconds), paced.took);
}

Latency ProduceToAck(const Pace& pace) {
  const FreshTopic topic(pace.broker_url);
  constexpr std::size_t kWarmUp = 100;
  std::vector<steady_clock::time_point> produced(pace.events + kWarmUp);
  std::vector<double> milliseconds(pace.events + kWarmUp);
  std::atomic<std::size_t> acked{0};
  const KafkaClient client = MakeProducer(pace.broker_url);
  const kafka::Queue queue(rd_kafka_queue_get_main(client.get()));
  const kafka::TopicHandle handle(rd_kafka_topic_new(client.get(), topic.name().c_str(), nullptr));
  std::jthread collector([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const kafka::Event event(rd_kafka_queue_poll(queue.get(), 100));
      if (event == nullptr || rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_DR) continue;
      const auto now = steady_clock::now();
      while (const rd_kafka_message_t* const report = rd_kafka_event_message_next(event.get())) {
        if (report->err != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(rd_kafka_err2str(report->err));
        const auto number = reinterpret_cast<std::uintptr_t>(report->_private);
        milliseconds[number] = Milliseconds(now - produced[number]);
        acked.fetch_add(1);
      }
    }
  });
  const Outbox outbox{{.producer = "shop"}};
  const auto produce = [&](std::size_t number) {
    const auto entry = outbox.Admit(MakeEvent(number));
    if (!entry) Fail(entry.error().ToString());
    const WireMessage message = ToWire(entry->envelope, WireProfile::kCloudEvents);
    rd_kafka_headers_t* const headers = rd_kafka_headers_new(message.headers.size());
    for (const auto& [name, value] : message.headers) {
      rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), value.data(),
                          static_cast<ssize_t>(value.size()));
    }
    produced[number] = steady_clock::now();
    const auto error = rd_kafka_producev(
        client.get(), RD_KAFKA_V_RKT(handle.get()), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_KEY(const_cast<char*>(message.key.data()), message.key.size()),
        RD_KAFKA_V_VALUE(const_cast<char*>(message.value.data()), message.value.size()), RD_KAFKA_V_HEADERS(headers),
        RD_KAFKA_V_OPAQUE(reinterpret_cast<void*>(number)), RD_KAFKA_V_END);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(rd_kafka_err2str(error));
  };
  for (std::size_t i = 0; i < kWarmUp; ++i) produce(i);
  Await("the first acknowledgements", [&] { return acked.load() == kWarmUp; });
  const Paced paced = RunPaced(pace, [&](std::size_t i) { produce(kWarmUp + i); });
  Await("the last acknowledgements", [&] { return acked.load() == paced.steps + kWarmUp; });
  collector.request_stop();
  collector.join();
  milliseconds.resize(paced.steps + kWarmUp);
  milliseconds.erase(milliseconds.begin(), milliseconds.begin() + kWarmUp);
  return Summarise(std::move(milliseconds), paced.took);
}

}  // namespace sealane::bench
