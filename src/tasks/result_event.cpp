#include "tasks/result_event.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "base/time_text.hpp"
#include "core/json_object.hpp"

namespace sealane {
namespace {

/// Where a text may be cut at or before `at` without splitting a character.
std::string_view CutText(std::string_view text, std::size_t at) {
  if (text.size() <= at) return text;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) --at;
  return text.substr(0, at);
}

/// The response as text, or empty when it is none. One that was cut already may end inside a character.
std::optional<std::string_view> TextOf(const AttemptReport& report) {
  const auto bad = FirstInvalidUtf8(report.response);
  if (!bad) return report.response;
  constexpr std::size_t kCharacterMax = 4;
  if (!report.response_cut || *bad + kCharacterMax <= report.response.size()) return std::nullopt;
  return std::string_view(report.response).substr(0, *bad);
}

void AppendResponse(JsonAppender& json, const AttemptReport& report, std::size_t max) {
  if (report.response.empty()) return;
  const auto text = TextOf(report);
  const std::string_view carried = text ? CutText(*text, max) : std::string_view(report.response).substr(0, max);
  if (text) {
    json.Text("response", carried);
  } else {
    json.Base64("response_base64", carried);
  }
  json.TextIfAny("response_type", report.response_type);
  json.Raw("response_cut", report.response_cut || carried.size() < report.response.size() ? "true" : "false");
}

std::string Payload(const ClaimedTask& task, const TaskEnd& end, std::size_t response_max) {
  std::string payload;
  JsonAppender json(payload);
  json.Open();
  json.Text("task_id", task.id.ToString());
  json.Text("target", task.task.target);
  json.Text("operation", task.task.operation);
  json.Text("idempotency_key", task.task.idempotency_key);
  json.Text("state", ToString(end.state));
  json.Integer("attempts", task.attempt);
  json.Text("verdict", ToString(end.report.verdict));
  if (end.report.status) json.Integer("status", *end.report.status);
  json.TextIfAny("code", end.report.code);
  json.TextIfAny("message", end.report.message);
  AppendResponse(json, end.report, response_max);
  json.Text("ended_at", ToRfc3339(end.at));
  json.Close();
  return payload;
}

}  // namespace

Event ResultEvent(const ClaimedTask& task, const TaskEnd& end, std::size_t response_max) {
  Event event;
  event.topic = task.task.result_topic;
  event.key = task.task.result_key.empty() ? task.task.idempotency_key : task.task.result_key;
  event.type = end.state == TaskState::kSucceeded ? "TaskSucceeded" : "TaskDead";
  event.payload = Payload(task, end, response_max);
  event.tenant = task.task.tenant;
  event.aggregate = {.type = "task", .id = task.id.ToString(), .version = std::nullopt};
  event.correlation_id = task.task.correlation_id;
  event.causation_id = task.task.causation_id;
  event.traceparent = task.task.traceparent;
  event.occurred_at = end.at;
  return event;
}

}  // namespace sealane
