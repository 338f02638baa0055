#include "kafka/kafka_topics.hpp"

#include <array>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "base/text.hpp"
#include "broker/wake_up.hpp"
#include "kafka/handles.hpp"
#include "kafka/producer.hpp"
#include "kafka/producer_conf.hpp"

namespace sealane {
namespace {

using kafka::Producer;
using kafka::Queue;
using std::chrono::milliseconds;

using NewTopic = std::unique_ptr<rd_kafka_NewTopic_t, kafka::Releaser<rd_kafka_NewTopic_destroy>>;
using DeleteTopic = std::unique_ptr<rd_kafka_DeleteTopic_t, kafka::Releaser<rd_kafka_DeleteTopic_destroy>>;

constexpr int kReplicasByBroker = -1;

Error Refused(std::string_view topic, rd_kafka_resp_err_t code, const char* words) {
  const std::string message =
      fmt::format("topic {}: {}", topic, EscapeForTerminal(words != nullptr ? words : rd_kafka_err2str(code)));
  if (code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) return Error(ErrorKind::kRejected, "topic_exists", message);
  return Error(ErrorKind::kMisconfigured, "topic_refused", message)
      .WithNative(rd_kafka_err2name(code))
      .WithHint("may this user create and delete topics there?");
}

/// An admin request under way: the client, and the answer when it came.
class Request {
 public:
  static Result<Request> Prepare(const KafkaOptions& options, rd_kafka_admin_op_t operation, milliseconds timeout) {
    SEALANE_ASSIGN_OR_RETURN(const kafka::Conf conf, kafka::MakeProducerConf(options));
    SEALANE_ASSIGN_OR_RETURN(WakeUp wake, WakeUp::Make());
    SEALANE_ASSIGN_OR_RETURN(std::unique_ptr<Producer> producer,
                             Producer::Make(*conf, Producer::Kind::kBatching, 0, wake.descriptor()));
    Request request(std::move(wake), std::move(producer), timeout);
    request.options_.reset(rd_kafka_AdminOptions_new(request.client(), operation));
    const int limit = static_cast<int>(timeout.count());
    std::array<char, 256> ignored{};
    rd_kafka_AdminOptions_set_request_timeout(request.options_.get(), limit, ignored.data(), ignored.size());
    return request;
  }

  rd_kafka_t* client() const { return producer_->handle(); }
  rd_kafka_queue_t* queue() const { return queue_.get(); }
  rd_kafka_AdminOptions_t* options() const { return options_.get(); }

  /// The answer; kUnavailable when there is none.
  Result<kafka::Event> Await(const KafkaOptions& options) const {
    kafka::Event event(rd_kafka_queue_poll(queue_.get(), static_cast<int>(timeout_.count()) + 1'000));
    if (event != nullptr && rd_kafka_event_error(event.get()) == RD_KAFKA_RESP_ERR_NO_ERROR) return event;
    return Error(ErrorKind::kUnavailable, "broker_unreachable",
                 fmt::format("no answer from {} within {} ms", RedactUrl(options.url), timeout_.count()))
        .WithHint("check the address, the network and whether the brokers run");
  }

 private:
  Request(WakeUp wake, std::unique_ptr<Producer> producer, milliseconds timeout)
      : wake_(std::move(wake)),
        producer_(std::move(producer)),
        queue_(rd_kafka_queue_new(producer_->handle())),
        timeout_(timeout) {}

  WakeUp wake_;
  std::unique_ptr<Producer> producer_;
  Queue queue_;
  kafka::AdminOptions options_;
  milliseconds timeout_;
};

}  // namespace

Status CreateKafkaTopics(const KafkaOptions& options, const std::vector<std::string>& names, std::int32_t partitions,
                         milliseconds timeout) {
  SEALANE_ASSIGN_OR_RETURN(const Request request, Request::Prepare(options, RD_KAFKA_ADMIN_OP_CREATETOPICS, timeout));
  std::vector<NewTopic> topics;
  std::vector<rd_kafka_NewTopic_t*> raw;
  for (const std::string& name : names) {
    std::array<char, 256> reason{};
    topics.emplace_back(
        rd_kafka_NewTopic_new(name.c_str(), partitions, kReplicasByBroker, reason.data(), reason.size()));
    if (topics.back() == nullptr) return Refused(name, RD_KAFKA_RESP_ERR__INVALID_ARG, reason.data());
    raw.push_back(topics.back().get());
  }
  rd_kafka_CreateTopics(request.client(), raw.data(), raw.size(), request.options(), request.queue());
  SEALANE_ASSIGN_OR_RETURN(const kafka::Event answer, request.Await(options));
  std::size_t count = 0;
  const rd_kafka_topic_result_t** const results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(answer.get()), &count);
  for (const rd_kafka_topic_result_t* result : std::span(results, count)) {
    if (const auto code = rd_kafka_topic_result_error(result); code != RD_KAFKA_RESP_ERR_NO_ERROR) {
      return Refused(rd_kafka_topic_result_name(result), code, rd_kafka_topic_result_error_string(result));
    }
  }
  return Ok();
}

Status DeleteKafkaTopics(const KafkaOptions& options, const std::vector<std::string>& names, milliseconds timeout) {
  SEALANE_ASSIGN_OR_RETURN(const Request request, Request::Prepare(options, RD_KAFKA_ADMIN_OP_DELETETOPICS, timeout));
  std::vector<DeleteTopic> topics;
  std::vector<rd_kafka_DeleteTopic_t*> raw;
  for (const std::string& name : names) {
    topics.emplace_back(rd_kafka_DeleteTopic_new(name.c_str()));
    raw.push_back(topics.back().get());
  }
  rd_kafka_DeleteTopics(request.client(), raw.data(), raw.size(), request.options(), request.queue());
  SEALANE_ASSIGN_OR_RETURN(const kafka::Event answer, request.Await(options));
  std::size_t count = 0;
  const rd_kafka_topic_result_t** const results =
      rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(answer.get()), &count);
  for (const rd_kafka_topic_result_t* result : std::span(results, count)) {
    const auto code = rd_kafka_topic_result_error(result);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
      return Refused(rd_kafka_topic_result_name(result), code, rd_kafka_topic_result_error_string(result));
    }
  }
  return Ok();
}

}  // namespace sealane
