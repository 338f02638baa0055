#include "bench_relay/bare_producer.hpp"

#include <chrono>

#include "common/session.hpp"

namespace sealane::bench {
namespace {

constexpr std::size_t kCollectEvery = 1'000;
constexpr std::chrono::seconds kFlushMax{60};

void* Borrow(std::string_view bytes) {
  return const_cast<char*>(bytes.data());  // librdkafka is told to copy
}

}  // namespace

BareProducer::BareProducer(const std::string& broker_url, const std::string& topic)
    : client_(MakeProducer(broker_url)),
      queue_(rd_kafka_queue_get_main(client_.get())),
      topic_(rd_kafka_topic_new(client_.get(), topic.c_str(), nullptr)) {}

void BareProducer::Produce(const BareMessage& message) {
  kafka::Headers headers(rd_kafka_headers_new(message.headers().size()));
  for (const HeaderView& header : message.headers()) {
    rd_kafka_header_add(headers.get(), header.name.data(), static_cast<ssize_t>(header.name.size()),
                        header.value.data(), static_cast<ssize_t>(header.value.size()));
  }
  for (;;) {
    const rd_kafka_resp_err_t error =
        rd_kafka_producev(client_.get(), RD_KAFKA_V_RKT(topic_.get()), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                          RD_KAFKA_V_KEY(Borrow(message.key()), message.key().size()),
                          RD_KAFKA_V_VALUE(Borrow(message.value()), message.value().size()),
                          RD_KAFKA_V_HEADERS(headers.get()), RD_KAFKA_V_END);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) break;
    if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) Fail(rd_kafka_err2str(error));
    Collect(10);
  }
  (void)headers.release();  // librdkafka's now
  ++under_way_;
  if (++since_collect_ < kCollectEvery) return;
  since_collect_ = 0;
  Collect(0);
}

void BareProducer::Flush() {
  const auto deadline = std::chrono::steady_clock::now() + kFlushMax;
  while (under_way_ > 0) {
    if (std::chrono::steady_clock::now() > deadline) Fail("Kafka did not acknowledge everything within a minute");
    Collect(100);
  }
}

void BareProducer::Collect(int wait_ms) {
  while (const kafka::Event event{rd_kafka_queue_poll(queue_.get(), wait_ms)}) {
    wait_ms = 0;
    if (rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_DR) continue;
    while (const rd_kafka_message_t* const report = rd_kafka_event_message_next(event.get())) {
      if (report->err != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(rd_kafka_err2str(report->err));
      --under_way_;
    }
  }
}

}  // namespace sealane::bench
