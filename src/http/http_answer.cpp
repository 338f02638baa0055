#include "http/http_answer.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <curl/curl.h>
#include <fmt/format.h>

namespace sealane::http {
namespace {

constexpr std::array kOutageStatuses = {408L, 425L, 429L, 502L, 503L, 504L};
// A proxy says these when the receiver's answer did not come through; the request may have.
constexpr std::array kUnknownStatuses = {502L, 504L};
constexpr std::array kMisconfiguredStatuses = {401L, 403L, 404L, 405L, 407L, 410L};
// 409: the first request with this Idempotency-Key is still being worked on.
constexpr std::array kLockedStatuses = {409L, 423L, 424L};
constexpr std::array kMisconfiguredTransports = {CURLE_UNSUPPORTED_PROTOCOL,     CURLE_URL_MALFORMAT,
                                                 CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE,
                                                 CURLE_SSL_CERTPROBLEM,          CURLE_SSL_ISSUER_ERROR};

template <class Range, class Value>
bool Contains(const Range& range, const Value& value) {
  return std::find(range.begin(), range.end(), value) != range.end();
}

std::string_view HintFor(long status) {
  switch (status) {
    case 401:
    case 403:
      return "check the token or password, and what it permits";
    case 404:
    case 410:
      return "check the URL: nothing there takes events";
    case 405:
      return "check the URL: what is there takes no POST";
    case 407:
      return "check the proxy's login";
    default:
      return "give the URL that the receiver redirects to, if it is trusted";
  }
}

AnswerVerdict TryAgain(Error problem, bool unknown) {
  return {.kind = AnswerVerdict::Kind::kTryAgain, .problem = std::move(problem), .unknown = unknown};
}

AnswerVerdict JudgeTransport(const Answer& answer) {
  const auto code = static_cast<CURLcode>(answer.transport);
  const std::string native = fmt::format("curl {}", answer.transport);
  const std::string text = curl_easy_strerror(code);
  if (Contains(kMisconfiguredTransports, code)) {
    return TryAgain(Error(ErrorKind::kMisconfigured, "receiver_not_trusted", text)
                        .WithNative(native)
                        .WithHint("check the URL and the receiver's certificate, or give its authority as CA file"),
                    false);
  }
  return TryAgain(Error(ErrorKind::kUnavailable, "receiver_unreachable", text)
                      .WithNative(native)
                      .WithHint("check that the receiver runs and can be reached from here"),
                  answer.request_sent);
}

}  // namespace

AnswerVerdict JudgeAnswer(const Answer& answer) {
  if (answer.transport != CURLE_OK) return JudgeTransport(answer);
  const long status = answer.status;
  if (status >= 200 && status < 300) return {};

  const std::string code = fmt::format("http_{}", status);
  const std::string text = fmt::format("the receiver answered {}", status);
  if (Contains(kOutageStatuses, status)) {
    return TryAgain(Error(ErrorKind::kUnavailable, code, text).WithHint("wait, or look at the receiver"),
                    Contains(kUnknownStatuses, status));
  }
  if (status < 400 || Contains(kMisconfiguredStatuses, status)) {
    return TryAgain(Error(ErrorKind::kMisconfigured, code, text).WithHint(std::string(HintFor(status))), false);
  }
  const bool may_pass = status >= 500 || Contains(kLockedStatuses, status);
  return {.kind = AnswerVerdict::Kind::kFailed,
          .problem = Error(ErrorKind::kRejected, code, text),
          .failure = may_pass ? FailureClass::kRetry : FailureClass::kRejected};
}

}  // namespace sealane::http
