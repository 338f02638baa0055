#include "kafka/kafka_errors.hpp"

#include <array>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane::kafka {
namespace {

struct Row {
  rd_kafka_resp_err_t error;
  FailureClass failure;
  std::string_view code;
};

constexpr std::array kRows = {
    Row{RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, FailureClass::kForbidden, "topic_forbidden"},

    Row{RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, FailureClass::kRejected, "message_too_large"},
    Row{RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, FailureClass::kRejected, "message_too_large"},
    Row{RD_KAFKA_RESP_ERR_INVALID_RECORD, FailureClass::kRejected, "invalid_message"},
    Row{RD_KAFKA_RESP_ERR_POLICY_VIOLATION, FailureClass::kRejected, "invalid_message"},
    Row{RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, FailureClass::kRejected, "invalid_message"},
    Row{RD_KAFKA_RESP_ERR__INVALID_ARG, FailureClass::kRejected, "invalid_message"},
    Row{RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, FailureClass::kTopicMissing, "unknown_topic"},
    Row{RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, FailureClass::kTopicMissing, "unknown_topic"},
    Row{RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, FailureClass::kTopicMissing, "unknown_topic"},
    Row{RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, FailureClass::kRejected, "invalid_topic"},

    // The time of a record is the relay's: the broker refuses one that is too far from its own.
    Row{RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, FailureClass::kMisconfigured, "clock_wrong"},
    Row{RD_KAFKA_RESP_ERR__AUTHENTICATION, FailureClass::kMisconfigured, "login_refused"},
    Row{RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, FailureClass::kMisconfigured, "login_refused"},
    Row{RD_KAFKA_RESP_ERR_ILLEGAL_SASL_STATE, FailureClass::kMisconfigured, "login_refused"},
    Row{RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM, FailureClass::kMisconfigured, "login_refused"},
    Row{RD_KAFKA_RESP_ERR__SSL, FailureClass::kMisconfigured, "tls_failed"},
    Row{RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, FailureClass::kMisconfigured, "not_permitted"},
    Row{RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FailureClass::kMisconfigured, "not_permitted"},
    Row{RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE, FailureClass::kMisconfigured, "not_supported"},
    Row{RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION, FailureClass::kMisconfigured, "not_supported"},
    Row{RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE, FailureClass::kMisconfigured, "not_supported"},

    Row{RD_KAFKA_RESP_ERR__PURGE_QUEUE, FailureClass::kOutage, "abandoned"},
    Row{RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, FailureClass::kOutage, "abandoned"},

    Row{RD_KAFKA_RESP_ERR__FATAL, FailureClass::kOutage, "producer_rebuilt"},
    Row{RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE, FailureClass::kOutage, "producer_rebuilt"},
    Row{RD_KAFKA_RESP_ERR__FENCED, FailureClass::kOutage, "producer_rebuilt"},
    Row{RD_KAFKA_RESP_ERR__INCONSISTENT, FailureClass::kOutage, "producer_rebuilt"},
    Row{RD_KAFKA_RESP_ERR__DESTROY, FailureClass::kOutage, "producer_rebuilt"},
    Row{RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, FailureClass::kOutage, "producer_rebuilt"},
    Row{RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER, FailureClass::kOutage, "producer_rebuilt"},
    Row{RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, FailureClass::kOutage, "producer_rebuilt"},
    Row{RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, FailureClass::kOutage, "producer_rebuilt"},
    Row{RD_KAFKA_RESP_ERR_PRODUCER_FENCED, FailureClass::kOutage, "producer_rebuilt"},

    Row{RD_KAFKA_RESP_ERR__TRANSPORT, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR__RESOLVE, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR__TIMED_OUT, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR__WAIT_COORD, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, FailureClass::kOutage, "not_enough_replicas"},
    Row{RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, FailureClass::kOutage, "not_enough_replicas"},
    Row{RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, FailureClass::kOutage, "broker_storage_error"},
    Row{RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, FailureClass::kOutage, "throttled"},
    Row{RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS, FailureClass::kOutage, "broker_unreachable"},
    Row{RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, FailureClass::kOutage, "broker_unreachable"},
};

// The first version whose SCRAM works with Kafka 4.
constexpr int kScramWithKafka4 = 0x020b0000;

Error LoginRefused(std::string_view text, std::string_view mechanism, int library_version) {
  Error error(ErrorKind::kMisconfigured, "login_refused", EscapeForTerminal(text));
  if (!mechanism.starts_with("SCRAM") || library_version >= kScramWithKafka4) {
    return std::move(error).WithHint("check sasl.username, the password and sasl.mechanism");
  }
  const auto version = static_cast<unsigned>(library_version);
  return Error(ErrorKind::kMisconfigured, "login_refused",
               fmt::format("{}; librdkafka {}.{}.{} cannot log in to Kafka 4 with {}, even with the right password",
                           error.message(), version >> 24U, (version >> 16U) & 0xFFU, (version >> 8U) & 0xFFU,
                           mechanism))
      .WithHint(
          "if the password is right and the broker is Kafka 4: use sasl.mechanism=PLAIN over TLS, or build with "
          "librdkafka 2.11 or newer (cmake -DSEALANE_RDKAFKA_ROOT=<its prefix>)");
}

}  // namespace

KafkaFailure ClassifyKafkaError(rd_kafka_resp_err_t error) {
  for (const Row& row : kRows) {
    if (row.error == error) return {row.failure, row.code};
  }
  // Unheard of: it may pass, and if it does not, the attempts end.
  return {FailureClass::kRetry, "kafka_error"};
}

std::string_view NameOf(rd_kafka_resp_err_t error) {
  return rd_kafka_err2name(error);
}

Error BrokerProblem(rd_kafka_resp_err_t error, std::string_view text, std::string_view mechanism,
                    int library_version) {
  const KafkaFailure failure = ClassifyKafkaError(error);
  const std::string native(NameOf(error));
  if (failure.code == "login_refused") {
    return LoginRefused(text, mechanism, library_version).WithNative(native);
  }
  if (failure.failure == FailureClass::kMisconfigured) {
    return Error(ErrorKind::kMisconfigured, std::string(failure.code), EscapeForTerminal(text))
        .WithNative(native)
        .WithHint(failure.code == "tls_failed"
                      ? "check security.protocol, ssl.ca.location and the broker's certificate"
                  : failure.code == "clock_wrong"
                      ? "set the clock of this machine right; events wait until then"
                      : "look at the rights of the user on the cluster, and at the broker's version");
  }
  return Error(ErrorKind::kUnavailable, "broker_unreachable", EscapeForTerminal(text))
      .WithNative(native)
      .WithHint("check the address, the network and whether the brokers run; it goes on by itself");
}

}  // namespace sealane::kafka
