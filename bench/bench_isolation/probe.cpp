#include "bench_isolation/probe.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "bench_isolation/processes.hpp"
#include "core/wire.hpp"

namespace sealane::bench {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr int kTimeoutMs = 30'000;

double Milliseconds(system_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

/// Calls `write` at an even pace until `go_on` says no; returns how many seconds that took. A write that is late is
/// not waited for, so that the rate is kept.
template <class Write>
double RunPaced(const GoOn& go_on, const Write& write) {
  const auto gap = std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(1 / kPerSecond));
  const auto began = steady_clock::now();
  auto ask_next = began;
  for (auto due = began;; due += gap) {
    std::this_thread::sleep_until(due);
    if (const auto now = steady_clock::now(); now >= ask_next) {
      if (!go_on()) break;
      ask_next = now + std::chrono::milliseconds{100};
    }
    write();
  }
  return std::chrono::duration<double>(steady_clock::now() - began).count();
}

KafkaClient MakeConsumer(const std::string& broker_url) {
  const std::string servers = broker_url.substr(broker_url.find("//") + 2);
  rd_kafka_conf_t* const conf = rd_kafka_conf_new();
  std::array<char, 512> reason{};
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"bootstrap.servers", servers}, {"group.id", "bench"}, {"enable.auto.commit", "false"}}) {
    if (rd_kafka_conf_set(conf, name, value.c_str(), reason.data(), reason.size()) != RD_KAFKA_CONF_OK) {
      Fail(reason.data());
    }
  }
  KafkaClient client(rd_kafka_new(RD_KAFKA_CONSUMER, conf, reason.data(), reason.size()));
  if (client == nullptr) Fail(reason.data());
  rd_kafka_poll_set_consumer(client.get());
  return client;
}

/// Everything that was handed over is at the broker. The producer's reports are events of its main queue.
void AwaitProduced(rd_kafka_t* producer) {
  const kafka::Queue queue(rd_kafka_queue_get_main(producer));
  const bool all = WaitFor(std::chrono::seconds{60}, [&] {
    for (kafka::Event event; (event = kafka::Event(rd_kafka_queue_poll(queue.get(), 0))) != nullptr;) {
      while (const rd_kafka_message_t* const report = rd_kafka_event_message_next(event.get())) {
        if (report->err != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(rd_kafka_err2str(report->err));
      }
    }
    return rd_kafka_outq_len(producer) == 0;
  });
  if (!all) Fail("Kafka does not take the messages");
}

/// Hands one event to librdkafka, in the form in which a relay would send it.
void Produce(rd_kafka_t* producer, const std::string& topic, const Event& event) {
  static const Outbox outbox{{.producer = "bench"}};
  const auto entry = outbox.Admit(event);
  if (!entry) Fail(entry.error().ToString());
  const WireMessage message = ToWire(entry->envelope, WireProfile::kEnvelope);
  for (;;) {
    rd_kafka_headers_t* const headers = rd_kafka_headers_new(message.headers.size());
    for (const auto& [name, value] : message.headers) {
      rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), value.data(),
                          static_cast<ssize_t>(value.size()));
    }
    const auto error =
        rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(topic.c_str()), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                          RD_KAFKA_V_KEY(const_cast<char*>(message.key.data()), message.key.size()),
                          RD_KAFKA_V_VALUE(const_cast<char*>(message.value.data()), message.value.size()),
                          RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
    rd_kafka_headers_destroy(headers);
    if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) Fail(rd_kafka_err2str(error));
    AwaitProduced(producer);
  }
}

}  // namespace

Latency Summarise(std::vector<double> milliseconds, std::size_t missing, double seconds) {
  if (milliseconds.empty()) return {};
  std::ranges::sort(milliseconds);
  const auto at = [&](std::size_t percent) { return milliseconds[milliseconds.size() * percent / 100]; };
  return {.p50_ms = at(50),
          .p99_ms = at(99),
          .rate = static_cast<double>(milliseconds.size()) / seconds,
          .events = milliseconds.size(),
          .missing = missing};
}

GoOn For(double seconds) {
  return [deadline = steady_clock::now() + std::chrono::duration<double>(seconds)] {
    return steady_clock::now() < deadline;
  };
}

Arrivals::Arrivals(const std::string& broker_url, const std::string& topic) : client_(MakeConsumer(broker_url)) {
  const kafka::TopicHandle handle(rd_kafka_topic_new(client_.get(), topic.c_str(), nullptr));
  const rd_kafka_metadata_t* raw = nullptr;
  if (rd_kafka_metadata(client_.get(), 0, handle.get(), &raw, kTimeoutMs) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    Fail("the partitions of " + topic + " cannot be read");
  }
  const kafka::Metadata metadata(raw);
  rd_kafka_topic_partition_list_t* const list = rd_kafka_topic_partition_list_new(metadata->topics[0].partition_cnt);
  for (int i = 0; i < metadata->topics[0].partition_cnt; ++i) {
    rd_kafka_topic_partition_list_add(list, topic.c_str(), i)->offset = RD_KAFKA_OFFSET_BEGINNING;
  }
  rd_kafka_assign(client_.get(), list);
  rd_kafka_topic_partition_list_destroy(list);
  reader_ = std::jthread([this](const std::stop_token& stop) { Read(stop); });
}

Arrivals::~Arrivals() {
  reader_.request_stop();
  reader_.join();
  rd_kafka_consumer_close(client_.get());
}

void Arrivals::Read(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    rd_kafka_message_t* const message = rd_kafka_consumer_poll(client_.get(), 100);
    if (message == nullptr) continue;
    const auto now = system_clock::now();
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      const std::string_view key(static_cast<const char*>(message->key), message->key_len);
      const std::string_view digits = key.substr(key.rfind('-') + 1);
      std::size_t number = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
      const std::lock_guard lock(mutex_);
      times_.emplace(number, now);
    }
    rd_kafka_message_destroy(message);
  }
}

std::size_t Arrivals::count() const {
  const std::lock_guard lock(mutex_);
  return times_.size();
}

std::map<std::size_t, system_clock::time_point> Arrivals::times() const {
  const std::lock_guard lock(mutex_);
  return times_;
}

bool Arrivals::Has(std::size_t number) const {
  const std::lock_guard lock(mutex_);
  return times_.contains(number);
}

Event MakeEvent(const std::string& topic, const std::string& prefix, std::size_t number, std::string tenant) {
  return {.topic = topic,
          .key = fmt::format("{}-{}", prefix, number),
          .type = "OrderPlaced",
          .payload = fmt::format(R"({{"order":"{:0>10}","note":"{:x<267}"}})", number, ""),
          .tenant = std::move(tenant)};
}

RelayProbe::RelayProbe(const std::string& url, const std::string& broker_url)
    : topic_(broker_url), arrivals_(broker_url, topic_.name()), session_(url) {}

void RelayProbe::Write() {
  const std::size_t number = committed_.size();
  session_.Exec("begin");
  const auto appended =
      outbox_.Append(session_.get(), MakeEvent(topic_.name(), "h", number, fmt::format("healthy-{}", number % 20)));
  if (!appended) Fail(appended.error().ToString());
  session_.Exec("commit");
  committed_.push_back(system_clock::now());
}

bool RelayProbe::AwaitFlow(std::chrono::seconds limit) {
  Write();
  return WaitFor(limit, [&] { return arrivals_.Has(committed_.size() - 1); });
}

Latency RelayProbe::Lap(const GoOn& go_on) {
  const std::size_t first = committed_.size();
  const double seconds = RunPaced(go_on, [&] { Write(); });
  WaitFor(kLateMax, [&] {
    std::size_t last = committed_.size();
    while (last > first && arrivals_.Has(last - 1)) --last;
    return last == first;
  });
  const auto end = system_clock::now();
  const auto times = arrivals_.times();
  std::vector<double> milliseconds;
  std::size_t missing = 0;
  for (std::size_t i = first; i < committed_.size(); ++i) {
    const auto found = times.find(i);
    missing += found == times.end() ? 1 : 0;
    milliseconds.push_back(Milliseconds((found == times.end() ? end : found->second) - committed_[i]));
  }
  return Summarise(std::move(milliseconds), missing, seconds);
}

ConsumerProbe::ConsumerProbe(const std::string& url, const std::string& broker_url, std::string table)
    : topic_(broker_url), producer_(MakeProducer(broker_url)), session_(url), table_(std::move(table)) {}

void ConsumerProbe::Write() {
  produced_.push_back(system_clock::now());
  Produce(producer_.get(), topic_.name(), MakeEvent(topic_.name(), "h", produced_.size() - 1));
}

std::size_t ConsumerProbe::Effects(std::size_t from) const {
  return static_cast<std::size_t>(session_.Number(
      fmt::format("select count(*) from {} where key like 'h-%' and substr(key, 3)::bigint >= {}", table_, from)));
}

bool ConsumerProbe::AwaitFlow(std::chrono::seconds limit) {
  Write();
  return WaitFor(limit, [&] { return Effects(produced_.size() - 1) > 0; });
}

Latency ConsumerProbe::Lap(const GoOn& go_on) {
  const std::size_t first = produced_.size();
  const double seconds = RunPaced(go_on, [&] { Write(); });
  AwaitProduced(producer_.get());
  WaitFor(
      kLateMax, [&] { return Effects(first) >= produced_.size() - first; }, std::chrono::milliseconds{200});
  const auto end = system_clock::now();
  const PgResult rows = session_.Checked(PQexec(
      session_.get(),
      fmt::format(
          "select substr(key, 3), (extract(epoch from min(at)) * 1000000)::bigint from {} where key like 'h-%' "
          "and substr(key, 3)::bigint >= {} group by key",
          table_, first)
          .c_str()));
  std::vector<system_clock::time_point> effects(produced_.size(), end);
  for (int i = 0; i < PQntuples(rows.get()); ++i) {
    effects.at(std::strtoull(PQgetvalue(rows.get(), i, 0), nullptr, 10)) =
        system_clock::time_point(std::chrono::microseconds(std::atoll(PQgetvalue(rows.get(), i, 1))));
  }
  std::vector<double> milliseconds;
  for (std::size_t i = first; i < produced_.size(); ++i) {
    milliseconds.push_back(Milliseconds(effects[i] - produced_[i]));
  }
  const auto came = static_cast<std::size_t>(PQntuples(rows.get()));
  return Summarise(std::move(milliseconds), produced_.size() - first - came, seconds);
}

void ProduceAll(const std::string& broker_url, const std::string& topic, const std::string& prefix,
                std::size_t count) {
  const KafkaClient producer = MakeProducer(broker_url);
  for (std::size_t i = 0; i < count; ++i) {
    Produce(producer.get(), topic, MakeEvent(topic, prefix, i));
    if (i % 10'000 == 9'999) AwaitProduced(producer.get());
  }
  AwaitProduced(producer.get());
}

}  // namespace sealane::bench
