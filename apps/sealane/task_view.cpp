#include "task_view.hpp"

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/text.hpp"
#include "base/time_text.hpp"
#include "core/json_scan.hpp"
#include "output.hpp"

namespace sealane::cli {
namespace {

constexpr std::size_t kShownBytesMax = 4'096;

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string TimeOrDash(const std::optional<Timestamp>& time) {
  return time ? ToRfc3339(*time) : "-";
}

std::string StatusOrDash(const std::optional<std::int32_t>& status) {
  return status ? fmt::format("{}", *status) : "-";
}

void AddSummary(const TaskSummary& task, JsonDocument& json) {
  json.Text("id", task.id.ToString())
      .Text("state", ToString(task.state))
      .TextIfAny("tenant", task.tenant)
      .Text("target", task.target)
      .Text("operation", task.operation)
      .Text("idempotency_key", task.idempotency_key)
      .Integer("attempts", task.attempts)
      .Time("created_at", task.created_at);
  if (task.next_attempt_at) json.Time("next_attempt_at", *task.next_attempt_at);
  if (task.ended_at) json.Time("ended_at", *task.ended_at);
  if (task.status) json.Integer("status", *task.status);
  json.TextIfAny("error_code", task.error_code).TextIfAny("error_message", task.error_message);
}

// A line break in JSON is whitespace, but it would end the line of a JSON lines document.
void AddBytes(const std::string& name, const std::string& bytes, JsonDocument& json) {
  if (bytes.find_first_of("\r\n") == std::string::npos && ScanJson(bytes)) {
    json.Raw(name, bytes);
  } else {
    json.Text(name + "_base64", ToBase64(bytes));
  }
}

std::string AttemptJson(const TaskAttempt& attempt, bool with_response) {
  JsonDocument json;
  json.Integer("number", attempt.number).Text("owner", attempt.owner).Time("started_at", attempt.started_at);
  if (attempt.ended_at) json.Time("ended_at", *attempt.ended_at);
  if (const auto& report = attempt.report) {
    json.Text("verdict", ToString(report->verdict));
    if (report->status) json.Integer("status", *report->status);
    json.TextIfAny("code", report->code).TextIfAny("message", report->message);
    if (report->retry_after) json.Integer("retry_after_ms", report->retry_after->count());
    json.Integer("took_us", report->took.count());
    if (with_response && !report->response.empty()) {
      json.TextIfAny("response_type", report->response_type);
      AddBytes("response", report->response, json);
      json.Truth("response_cut", report->response_cut);
    }
  }
  return json.Finish();
}

std::string AttemptsJson(const TaskDetails& details, bool with_responses) {
  std::vector<std::string> attempts;
  for (const TaskAttempt& attempt : details.attempts) attempts.push_back(AttemptJson(attempt, with_responses));
  return JsonArray(attempts);
}

std::string ShownBytes(const std::string& bytes) {
  const std::string part = bytes.substr(0, kShownBytesMax);
  const std::string more =
      bytes.size() > kShownBytesMax ? fmt::format(" ... ({} bytes; -o json shows all)", bytes.size()) : "";
  return (IsUtf8(bytes) ? part : "base64 " + ToBase64(part)) + more;
}

void Line(std::string& text, std::string_view name, const std::string& value) {
  if (!value.empty()) text += fmt::format("{:<16}{}\n", name, EscapeForTerminal(value));
}

std::string Reason(const std::string& code, const std::string& message) {
  return message.empty() ? code : fmt::format("{}: {}", code, message);
}

}  // namespace

std::string TaskSummaryJson(const TaskSummary& task) {
  JsonDocument json;
  AddSummary(task, json);
  return json.Finish();
}

std::vector<std::string> TaskSummariesJson(const std::vector<TaskSummary>& tasks) {
  std::vector<std::string> items;
  for (const TaskSummary& task : tasks) items.push_back(TaskSummaryJson(task));
  return items;
}

std::string TaskDetailsJson(const TaskDetails& details) {
  const Task& task = details.task;
  JsonDocument json;
  AddSummary(details.summary, json);
  json.TextIfAny("correlation_id", task.correlation_id)
      .TextIfAny("causation_id", task.causation_id)
      .TextIfAny("traceparent", task.traceparent)
      .TextIfAny("result_topic", task.result_topic)
      .TextIfAny("result_key", task.result_key)
      .TextIfAny("order_key", task.order_key);
  if (task.not_before) json.Time("not_before", *task.not_before);
  JsonDocument headers;
  for (const Header& header : task.headers) headers.Text(header.name, header.value);
  json.Raw("headers", headers.Finish())
      .Text("content_type", task.content_type)
      .Text("request_hash", details.request_hash);
  AddBytes("request", task.request, json);
  return json.Raw("history", AttemptsJson(details, true)).Finish();
}

std::string TaskHistoryJson(const TaskDetails& details) {
  const Task& task = details.task;
  JsonDocument json;
  AddSummary(details.summary, json);
  json.TextIfAny("correlation_id", task.correlation_id)
      .TextIfAny("causation_id", task.causation_id)
      .TextIfAny("order_key", task.order_key)
      .Integer("request_size", static_cast<std::int64_t>(task.request.size()));
  return json.Raw("history", AttemptsJson(details, false)).Finish();
}

std::string TargetSummaryJson(const TargetSummary& target) {
  const auto time = [](const std::optional<Timestamp>& at) {
    return at ? fmt::format("\"{}\"", ToRfc3339(*at)) : std::string("null");
  };
  JsonDocument json;
  json.Text("target", target.target)
      .Text("state", target.state())
      .Integer("due", target.due)
      .Raw("oldest_due_at", time(target.oldest_due_at))
      .Raw("next_due_at", time(target.next_due_at))
      .Integer("in_flight", target.in_flight);
  std::string paused = "null";
  if (const auto& pause = target.pause) {
    paused = JsonDocument().Time("at", pause->at).Text("actor", pause->actor).Text("reason", pause->reason).Finish();
  }
  std::string down = "null";
  if (const auto& outage = target.down) {
    down = JsonDocument()
               .Integer("dispatchers", outage->dispatchers)
               .Time("since", outage->since)
               .Time("next_probe_at", outage->next_probe_at)
               .Text("error_code", outage->error_code)
               .Text("error_message", outage->error_message)
               .Finish();
  }
  return json.Raw("paused", paused).Raw("down", down).Finish();
}

std::string TargetSummaryTable(const std::vector<TargetSummary>& targets, bool color) {
  Table table({"TARGET", "STATE", "DUE", "OLDEST DUE", "IN FLIGHT", "NEXT PROBE", "LAST ERROR"});
  for (const TargetSummary& target : targets) {
    std::string reason = "-";
    if (target.down) reason = Reason(target.down->error_code, target.down->error_message);
    if (target.pause) reason = fmt::format("paused by {}: {}", target.pause->actor, target.pause->reason);
    table.Add({target.target, std::string(target.state()),
               target.due >= TaskCounts::kCountMax ? fmt::format("{}+", target.due) : std::to_string(target.due),
               TimeOrDash(target.oldest_due_at), std::to_string(target.in_flight),
               target.down ? ToRfc3339(target.down->next_probe_at) : "-", reason});
  }
  return table.Render(color);
}

std::string TaskSummaryTable(const std::vector<TaskSummary>& tasks, bool color) {
  Table table(
      {"CREATED", "STATE", "TARGET", "OPERATION", "KEY", "ATTEMPTS", "STATUS", "NEXT ATTEMPT", "ERROR", "ID"});
  for (const TaskSummary& task : tasks) {
    table.Add({ToRfc3339(task.created_at), std::string(ToString(task.state)), task.target, task.operation,
               task.idempotency_key, fmt::format("{}", task.attempts), StatusOrDash(task.status),
               TimeOrDash(task.next_attempt_at), OrDash(task.error_code), task.id.ToString()});
  }
  return table.Render(color);
}

std::string TaskDetailsText(const TaskDetails& details, bool color) {
  const TaskSummary& summary = details.summary;
  const Task& task = details.task;
  std::string text;
  Line(text, "id", summary.id.ToString());
  Line(text, "state", std::string(ToString(summary.state)));
  Line(text, "target", task.target);
  Line(text, "operation", task.operation);
  Line(text, "key", task.idempotency_key);
  Line(text, "tenant", task.tenant);
  Line(text, "order key", task.order_key);
  Line(text, "correlation", task.correlation_id);
  Line(text, "causation", task.causation_id);
  Line(text, "result topic", task.result_topic);
  Line(text, "created at", ToRfc3339(summary.created_at));
  if (summary.next_attempt_at) Line(text, "next attempt", ToRfc3339(*summary.next_attempt_at));
  if (summary.ended_at) Line(text, "ended at", ToRfc3339(*summary.ended_at));
  Line(text, "attempts", fmt::format("{}", summary.attempts));
  Line(text, "error", Reason(summary.error_code, summary.error_message));
  for (const Header& header : task.headers) Line(text, "header", fmt::format("{}: {}", header.name, header.value));
  Line(text, "content type", task.content_type);
  Line(text, "request", ShownBytes(task.request));
  if (details.attempts.empty()) return text;
  Table table({"ATTEMPT", "STARTED", "ENDED", "BY", "VERDICT", "STATUS", "REASON", "RESPONSE"});
  for (const TaskAttempt& attempt : details.attempts) {
    const AttemptReport report = attempt.report.value_or(AttemptReport{});
    table.Add({fmt::format("{}", attempt.number), ToRfc3339(attempt.started_at), TimeOrDash(attempt.ended_at),
               attempt.owner, attempt.report ? std::string(ToString(report.verdict)) : "-",
               StatusOrDash(report.status), OrDash(Reason(report.code, report.message)),
               OrDash(ShownBytes(report.response).substr(0, 80))});
  }
  return text + "\n" + table.Render(color);
}

}  // namespace sealane::cli
