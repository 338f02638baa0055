#include "http/task_answer.hpp"

#include <algorithm>
#include <utility>

#include <curl/curl.h>
#include <fmt/format.h>

namespace sealane {

std::optional<ConflictMeaning> ParseConflictMeaning(std::string_view text) {
  if (text == "refused") return ConflictMeaning::kRefused;
  if (text == "retry") return ConflictMeaning::kRetry;
  if (text == "success") return ConflictMeaning::kSucceeded;
  return std::nullopt;
}

}  // namespace sealane

namespace sealane::http {
namespace {

struct Judgement {
  AttemptVerdict verdict = AttemptVerdict::kSucceeded;
  std::string code = {};
  std::string advice = {};
};

// Nothing was sent: the task did not happen.
Judgement JudgeConnecting(int transport) {
  switch (transport) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return {AttemptVerdict::kRetry, "receiver_not_found", "check the host name of the target's URL"};
    case CURLE_OPERATION_TIMEDOUT:
      return {AttemptVerdict::kRetry, "connect_timeout", "check that the target can be reached from here"};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
      return {AttemptVerdict::kRetry, "receiver_not_trusted",
              "check the target's certificate, or give its authority as ca_file"};
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return {AttemptVerdict::kRetry, "invalid_url", "check the target's URL"};
    default:
      return {AttemptVerdict::kRetry, "receiver_unreachable", "check that the target runs"};
  }
}

Judgement JudgeStatus(long status, ConflictMeaning conflict) {
  if (status >= 200 && status < 300) return {};
  if (status < 400) {
    return {AttemptVerdict::kRefused, "redirected", "give the URL that the target redirects to, if it is trusted"};
  }
  std::string code = fmt::format("http_{}", status);
  switch (status) {
    case 401:
    case 403:
    case 407:
      return {AttemptVerdict::kRetry, "not_authorised", "check the target's headers and login"};
    case 409:
      if (conflict == ConflictMeaning::kSucceeded) return {};
      return {conflict == ConflictMeaning::kRetry ? AttemptVerdict::kRetry : AttemptVerdict::kRefused, code};
    case 425:
    case 429:
    case 503:
      return {AttemptVerdict::kRetry, code};
    default:
      return {status == 408 || status >= 500 ? AttemptVerdict::kUnknown : AttemptVerdict::kRefused, code};
  }
}

/// Statuses that say nothing about the task: it would be the same for every other one.
bool SaysTargetIsDown(long status) {
  return status >= 500 || status == 401 || status == 403 || status == 407 || status == 408 || status == 429;
}

}  // namespace

AttemptReport JudgeTaskReply(HttpReply reply, ConflictMeaning conflict) {
  const Answer& answer = reply.answer;
  AttemptReport report;
  report.took = reply.took;
  if (answer.transport != CURLE_OK) {
    const Judgement judged = answer.request_sent
                                 ? Judgement{AttemptVerdict::kUnknown, "answer_missing", "it may have been done"}
                                 : JudgeConnecting(answer.transport);
    report.verdict = judged.verdict;
    report.code = judged.code;
    report.target_down = true;
    report.message =
        fmt::format("{}; {}", curl_easy_strerror(static_cast<CURLcode>(answer.transport)), judged.advice);
    return report;
  }
  const Judgement judged = JudgeStatus(answer.status, conflict);
  report.verdict = judged.verdict;
  report.code = judged.code;
  report.status = static_cast<std::int32_t>(answer.status);
  report.response = std::move(reply.body);
  report.response_cut = reply.body_cut;
  report.response_type = std::move(reply.content_type);
  if (judged.verdict == AttemptVerdict::kSucceeded) return report;
  report.target_down = SaysTargetIsDown(answer.status);
  report.message = fmt::format("the target answered {}", answer.status);
  if (!judged.advice.empty()) report.message += "; " + judged.advice;
  if (answer.retry_after.count() > 0) {
    report.retry_after = std::min<std::chrono::milliseconds>(answer.retry_after, kTaskRetryAfterMax);
  }
  return report;
}

}  // namespace sealane::http
