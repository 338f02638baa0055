#include "sealane/tasks.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sealane/admission.hpp"

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "base/time_text.hpp"
#include "core/content_type.hpp"
#include "core/json_scan.hpp"

namespace sealane {
namespace {

Error Refused(std::string_view field, std::string message, std::string hint) {
  return Error(ErrorKind::kRejected, "invalid_task", std::move(message))
      .WithField(std::string(field))
      .WithHint(std::move(hint));
}

Status CheckText(std::string_view field, std::string_view text, std::size_t max) {
  if (text.size() > max) {
    return Refused(field, fmt::format("{} has {} bytes, at most {} are taken", field, text.size(), max),
                   "shorten it, or put the long text into the request");
  }
  if (const auto bad = FirstInvalidUtf8(text)) {
    return Refused(field, fmt::format("{} is not UTF-8 at byte {}", field, *bad),
                   "convert the text to UTF-8, or put the bytes into the request");
  }
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    return Refused(field, fmt::format("{} has a NUL at byte {}", field, nul),
                   "no database text can hold a NUL; put such bytes into the request");
  }
  return Ok();
}

Status CheckRequired(std::string_view field, std::string_view text, std::size_t max) {
  if (text.empty()) {
    return Refused(field, fmt::format("{} is empty", field), fmt::format("give the task its {}", field));
  }
  return CheckText(field, text, max);
}

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

/// What cannot stand in a name of a header of HTTP, where most tasks go.
bool IsForbiddenInName(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte <= 0x20 || byte >= 0x7f || std::string_view(R"("(),/:;<=>?@[\]{})").find(c) != std::string_view::npos;
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

Status CheckHeader(const Header& header, const TaskLimits& limits) {
  SEALANE_RETURN_IF_ERROR(CheckRequired("headers", header.name, limits.name_bytes_max));
  SEALANE_RETURN_IF_ERROR(CheckText("headers", header.value, limits.header_bytes_max));
  if (std::ranges::any_of(header.name, IsForbiddenInName)) {
    return Refused("headers", fmt::format("header name \"{}\" is no name", EscapeForTerminal(header.name)),
                   "a name consists of letters, digits and characters such as - and _");
  }
  // A line break would let whoever chose the value write headers of his own.
  if (std::ranges::any_of(header.value, IsControl)) {
    return Refused("headers", fmt::format("the value of header \"{}\" has a control character", header.name),
                   "put such text into the request");
  }
  return Ok();
}

Status CheckHeaders(const Headers& headers, const TaskLimits& limits) {
  if (headers.size() > limits.headers_max) {
    return Refused("headers",
                   fmt::format("headers has {} entries, at most {} are taken", headers.size(), limits.headers_max),
                   "put data into the request");
  }
  std::size_t bytes = 0;
  std::set<std::string> names;
  for (const Header& header : headers) {
    SEALANE_RETURN_IF_ERROR(CheckHeader(header, limits));
    bytes += header.name.size() + header.value.size();
    if (!names.insert(LowerCase(header.name)).second) {
      return Refused("headers", fmt::format("header name \"{}\" stands twice", header.name),
                     "give each header once; join several values into one");
    }
  }
  if (bytes <= limits.header_bytes_max) return Ok();
  return Refused("headers", fmt::format("headers has {} bytes, at most {} are taken", bytes, limits.header_bytes_max),
                 "put data into the request");
}

Status CheckRequest(const Task& task, const TaskLimits& limits) {
  if (task.request.size() > limits.request_bytes_max) {
    return Refused(
        "request",
        fmt::format("request has {} bytes, at most {} are taken", task.request.size(), limits.request_bytes_max),
        "store the data elsewhere and send a reference, or raise the limit");
  }
  if (!IsJsonContentType(task.content_type)) return Ok();
  const auto json = ScanJson(task.request);
  if (json) return Ok();
  return Refused("request", fmt::format("request is not JSON: {}", json.error().message()),
                 "correct the request, or say what it is in content_type (application/octet-stream for plain bytes)");
}

/// The event that tells the end must not be refused once the task is under way, so what it will be made of is looked
/// at here.
Status CheckResult(const Task& task, const EventId& id) {
  if (task.result_topic.empty()) return Ok();
  Envelope probe;
  probe.id = id;
  probe.type = "TaskSucceeded";
  probe.topic = task.result_topic;
  probe.key = task.result_key.empty() ? task.idempotency_key : task.result_key;
  probe.content_type = "application/json";
  probe.payload = "{}";
  const Status admitted = CheckAdmission(probe, Limits{});
  if (admitted) return Ok();
  const Error& error = admitted.error();
  const bool about_key = error.field() == "key";
  const std::string_view key_field = task.result_key.empty() ? "idempotency_key" : "result_key";
  return Refused(about_key ? key_field : "result_topic",
                 fmt::format("the result event would be refused: {}", error.message()), error.hint());
}

Status CheckTask(const Task& task, const TaskLimits& limits) {
  const std::size_t trace_max = Limits{}.trace_max;
  SEALANE_RETURN_IF_ERROR(CheckRequired("target", task.target, limits.name_bytes_max));
  SEALANE_RETURN_IF_ERROR(CheckRequired("operation", task.operation, limits.key_bytes_max));
  if (std::ranges::any_of(task.operation, IsControl)) {
    return Refused("operation",
                   fmt::format("operation \"{}\" has a control character", EscapeForTerminal(task.operation)),
                   "an operation is a path or a name");
  }
  SEALANE_RETURN_IF_ERROR(CheckRequired("idempotency_key", task.idempotency_key, limits.key_bytes_max));
  if (std::ranges::any_of(task.idempotency_key, IsControl)) {
    return Refused("idempotency_key", "idempotency_key has a control character",
                   "it is sent as a header: use printable text, or the hex digits of a hash");
  }
  SEALANE_RETURN_IF_ERROR(CheckText("tenant", task.tenant, limits.name_bytes_max));
  SEALANE_RETURN_IF_ERROR(CheckRequired("content_type", task.content_type, limits.name_bytes_max));
  if (std::ranges::any_of(task.content_type, IsControl)) {
    return Refused("content_type", "content_type has a control character",
                   "give a media type, for example application/json");
  }
  SEALANE_RETURN_IF_ERROR(CheckHeaders(task.headers, limits));
  SEALANE_RETURN_IF_ERROR(CheckText("correlation_id", task.correlation_id, trace_max));
  SEALANE_RETURN_IF_ERROR(CheckText("causation_id", task.causation_id, trace_max));
  SEALANE_RETURN_IF_ERROR(CheckText("traceparent", task.traceparent, trace_max));
  SEALANE_RETURN_IF_ERROR(CheckText("result_topic", task.result_topic, limits.name_bytes_max));
  SEALANE_RETURN_IF_ERROR(CheckText("result_key", task.result_key, limits.key_bytes_max));
  SEALANE_RETURN_IF_ERROR(CheckText("order_key", task.order_key, limits.key_bytes_max));
  if (task.not_before && (*task.not_before < kTimestampMin || *task.not_before > kTimestampMax)) {
    return Refused("not_before", "not_before lies outside the years 1970 to 9999",
                   "check the unit: times are microseconds since 1970");
  }
  return CheckRequest(task, limits);
}

/// Each part behind its length, so that no two lists of parts read the same.
std::string HashOf(const Task& task) {
  std::string text;
  const auto add = [&](std::string_view part) { text += fmt::format("{}:{}", part.size(), part); };
  add(task.target);
  add(task.operation);
  add(task.content_type);
  add(std::to_string(task.headers.size()));
  for (const Header& header : task.headers) {
    add(header.name);
    add(header.value);
  }
  add(task.request);
  return ToHex(Sha256(text));
}

}  // namespace

Tasks::Tasks(TaskLimits limits) : Tasks(limits, EventIdGenerator::Instance()) {}

Tasks::Tasks(TaskLimits limits, EventIdGenerator& ids) : limits_(limits), ids_(ids) {}

Result<NewTask> Tasks::Admit(const Task& task) const {
  SEALANE_RETURN_IF_ERROR(CheckTask(task, limits_));
  NewTask admitted{.id = ids_.Next(), .task = task, .request_hash = HashOf(task)};
  SEALANE_RETURN_IF_ERROR(CheckResult(task, admitted.id));
  return admitted;
}

Result<EnqueuedTask> Tasks::Enqueue(TransactionRef transaction, const Task& task) const {
  SEALANE_ASSIGN_OR_RETURN(const NewTask admitted, Admit(task));
  return transaction->EnqueueTask(admitted);
}

}  // namespace sealane
