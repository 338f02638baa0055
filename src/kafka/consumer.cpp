#include "kafka/consumer.hpp"

#include <array>
#include <utility>

#include "base/text.hpp"
#include "kafka/kafka_errors.hpp"
#include "kafka/teardown.hpp"

namespace sealane::kafka {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds kCloseStep{50};

int Millis(milliseconds wait) {
  return static_cast<int>(wait.count());
}

}  // namespace

Result<std::unique_ptr<Consumer>> Consumer::Make(Conf conf, std::span<const std::string> topics, Listener& listener) {
  rd_kafka_conf_set_opaque(conf.get(), &listener);
  rd_kafka_conf_set_rebalance_cb(conf.get(), &Consumer::OnRebalance);
  rd_kafka_conf_set_error_cb(conf.get(), &Consumer::OnError);
  std::array<char, 512> reason{};
  rd_kafka_t* const handle = rd_kafka_new(RD_KAFKA_CONSUMER, conf.get(), reason.data(), reason.size());
  if (handle == nullptr) {
    return Error(ErrorKind::kMisconfigured, "invalid_kafka_configuration", EscapeForTerminal(reason.data()))
        .WithHint("correct the Kafka properties; librdkafka's CONFIGURATION.md describes them");
  }
  (void)conf.release();  // the consumer's now
  auto consumer = std::unique_ptr<Consumer>(new Consumer(handle));
  if (topics.empty()) return consumer;
  PartitionList subscribed;
  for (const std::string& topic : topics) subscribed.Add({topic, RD_KAFKA_PARTITION_UA});
  if (const auto error = rd_kafka_subscribe(handle, subscribed.get()); error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return Error(ErrorKind::kMisconfigured, "invalid_topics", rd_kafka_err2str(error))
        .WithNative(std::string(NameOf(error)))
        .WithHint("correct the names of the topics");
  }
  return consumer;
}

Consumer::Consumer(rd_kafka_t* handle) : handle_(handle), news_(nullptr), committed_(rd_kafka_queue_new(handle)) {
  rd_kafka_poll_set_consumer(handle_);
  news_.reset(rd_kafka_queue_get_consumer(handle_));
}

Consumer::~Consumer() {
  AwaitStops();
  news_.reset();
  committed_.reset();
  Destroy(handle_, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE, "consumer");
}

MessageHandle Consumer::Poll(milliseconds wait) {
  return MessageHandle(rd_kafka_consumer_poll(handle_, Millis(wait)));
}

rd_kafka_resp_err_t Consumer::Replace(const rd_kafka_topic_partition_list_t* partitions) {
  AwaitStops();
  was_assigned_ = true;
  return rd_kafka_assign(handle_, partitions);
}

// librdkafka ends the process (an assertion in rdkafka_assignment.c, at least up to 2.12) when it is told to stop a
// partition that it is stopping already, and rd_kafka_assign() returns before what was read so far is stopped. It is
// when the main thread of librdkafka, which does all this in order, has answered two further questions: the first one
// comes behind the stops, the second one behind what they leave to be done. Close() has nothing left to stop, and a
// group that was left does not answer.
void Consumer::AwaitStops() {
  const bool may_be_reading = was_assigned_ && !was_closed_;
  for (int question = 0; question < 2 && may_be_reading; ++question) {
    rd_kafka_topic_partition_list_t* assigned = nullptr;
    if (rd_kafka_assignment(handle_, &assigned) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
    rd_kafka_topic_partition_list_destroy(assigned);
  }
}

rd_kafka_resp_err_t Consumer::Committed(const PartitionList& partitions, milliseconds wait) {
  const rd_kafka_resp_err_t error = rd_kafka_committed(handle_, partitions.get(), Millis(wait));
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return error;
  for (int i = 0; i < partitions.get()->cnt; ++i) {
    const rd_kafka_topic_partition_t& entry = partitions.get()->elems[i];
    if (entry.err != RD_KAFKA_RESP_ERR_NO_ERROR) return entry.err;
  }
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t Consumer::OffsetsForTimes(const PartitionList& partitions, milliseconds wait) {
  return rd_kafka_offsets_for_times(handle_, partitions.get(), Millis(wait));
}

rd_kafka_resp_err_t Consumer::Commit(const PartitionList& positions) {
  return rd_kafka_commit_queue(handle_, positions.get(), committed_.get(), nullptr, nullptr);
}

Event Consumer::CommitAndWait(const PartitionList& positions, milliseconds wait) {
  const Queue answer(rd_kafka_queue_new(handle_));
  if (rd_kafka_commit_queue(handle_, positions.get(), answer.get(), nullptr, nullptr) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return nullptr;
  }
  return Event(rd_kafka_queue_poll(answer.get(), Millis(wait)));
}

std::optional<std::int64_t> Consumer::EndOffset(const Partition& partition) const {
  std::int64_t low = RD_KAFKA_OFFSET_INVALID;
  std::int64_t high = RD_KAFKA_OFFSET_INVALID;
  const auto error = rd_kafka_get_watermark_offsets(handle_, partition.topic.c_str(), partition.number, &low, &high);
  return error != RD_KAFKA_RESP_ERR_NO_ERROR || high < 0 ? std::nullopt : std::optional(high);
}

bool Consumer::Probe(milliseconds wait) {
  const rd_kafka_metadata_t* metadata = nullptr;
  if (rd_kafka_metadata(handle_, 0, nullptr, &metadata, Millis(wait)) != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
  rd_kafka_metadata_destroy(metadata);
  return true;
}

bool Consumer::HasTopic(const std::string& topic, milliseconds wait) {
  const TopicHandle handle(rd_kafka_topic_new(handle_, topic.c_str(), nullptr));
  if (handle == nullptr) return false;
  const rd_kafka_metadata_t* answer = nullptr;
  if (rd_kafka_metadata(handle_, 0, handle.get(), &answer, Millis(wait)) != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
  const Metadata metadata(answer);
  return metadata->topic_cnt == 1 && metadata->topics[0].err == RD_KAFKA_RESP_ERR_NO_ERROR &&
         metadata->topics[0].partition_cnt > 0;
}

rd_kafka_resp_err_t Consumer::FatalError() const {
  std::array<char, 512> reason{};
  return rd_kafka_fatal_error(handle_, reason.data(), reason.size());
}

bool Consumer::Close(milliseconds wait) {
  const auto deadline = steady_clock::now() + wait;
  // Answers what may be waiting for one; the listener answers what still comes.
  Unassign();
  was_closed_ = true;
  const Queue last_news(rd_kafka_queue_new(handle_));
  if (rd_kafka_error_t* const refused = rd_kafka_consumer_close_queue(handle_, last_news.get())) {
    rd_kafka_error_destroy(refused);
    return false;
  }
  // Taken as messages, not by rd_kafka_queue_poll_callback(): what was fetched ahead comes through this queue too,
  // and that call ends the process when it meets a message. Those that are dropped here were not committed.
  while (rd_kafka_consumer_closed(handle_) == 0 && steady_clock::now() < deadline) {
    const MessageHandle dropped(rd_kafka_consume_queue(last_news.get(), Millis(kCloseStep)));
  }
  return rd_kafka_consumer_closed(handle_) != 0;
}

void Consumer::OnRebalance(rd_kafka_t* handle, rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t* partitions,
                           void* opaque) {
  auto& listener = *static_cast<Listener*>(opaque);
  if (what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
    std::vector<Partition> assigned;
    for (int i = 0; i < partitions->cnt; ++i) assigned.push_back(PartitionOf(partitions->elems[i]));
    listener.OnAssigned(std::move(assigned));
  } else {
    listener.OnRevoked(rd_kafka_assignment_lost(handle) != 0 || what != RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS);
  }
  rd_kafka_yield(handle);
}

void Consumer::OnError(rd_kafka_t*, int error, const char* text, void* opaque) {
  static_cast<Listener*>(opaque)->OnBrokerError(static_cast<rd_kafka_resp_err_t>(error), text);
}

}  // namespace sealane::kafka
