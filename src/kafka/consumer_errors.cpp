#include "kafka/consumer_errors.hpp"

#include <string>

#include "base/text.hpp"
#include "kafka/kafka_errors.hpp"

namespace sealane::kafka {

ReadingTrouble TroubleOf(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
    case RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION:
    case RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS:
    case RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID:
    case RD_KAFKA_RESP_ERR__NO_OFFSET:
    case RD_KAFKA_RESP_ERR__ASSIGNMENT_LOST:
    // The partitions are lost, and the rebalance says so.
    case RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED:
      return ReadingTrouble::kNone;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
      return ReadingTrouble::kMissing;
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
    case RD_KAFKA_RESP_ERR__FATAL:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT:
    case RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL:
    case RD_KAFKA_RESP_ERR_INVALID_GROUP_ID:
      return ReadingTrouble::kFinal;
    default:
      return ReadingTrouble::kPasses;
  }
}

Error FinalError(rd_kafka_resp_err_t error, std::string_view text) {
  const std::string message = EscapeForTerminal(text);
  const auto made = [&](ErrorKind kind, const char* code, const char* hint) {
    return Error(kind, code, message).WithNative(std::string(NameOf(error))).WithHint(hint);
  };
  switch (error) {
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
      return made(ErrorKind::kCorrupt, "offset_out_of_range",
                  "retention has removed what the group had not read, or the topic was made anew: find out what is "
                  "missing, then say where to go on with: sealane inbox resume");
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
      return made(ErrorKind::kFenced, "member_fenced", "give every member of a group a name of its own");
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
      return made(ErrorKind::kMisconfigured, "topic_forbidden",
                  "give the user the rights Read and Describe on the topic");
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
      return made(ErrorKind::kMisconfigured, "group_forbidden", "give the user the right Read on the group");
    case RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT:
      return made(
          ErrorKind::kMisconfigured, "invalid_session",
          "choose a session within the broker's group.min.session.timeout.ms and group.max.session.timeout.ms");
    case RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL:
    case RD_KAFKA_RESP_ERR_INVALID_GROUP_ID:
      return made(ErrorKind::kMisconfigured, "invalid_group",
                  "another kind of client uses the group: choose another name for it");
    default:
      return made(ErrorKind::kMisconfigured, "kafka_error", "look at the message, and at the broker's log");
  }
}

}  // namespace sealane::kafka
