#include "dashboard/api.hpp"

#include <array>
#include <limits>

#include <fmt/format.h>

#include "base/time_text.hpp"
#include "command.hpp"
#include "dashboard/overview.hpp"
#include "dead_letter_view.hpp"
#include "inbox_view.hpp"
#include "message_view.hpp"
#include "output.hpp"
#include "task_view.hpp"

namespace sealane::cli {
namespace {

constexpr std::string_view kMessages = "/api/v1/messages";
constexpr std::string_view kAside = "/api/v1/aside";
constexpr std::string_view kReceipts = "/api/v1/receipts";
constexpr std::string_view kTasks = "/api/v1/tasks";
constexpr std::string_view kAudit = "/api/v1/audit";

/// The last part of `/api/v1/messages/ID`, or empty.
std::string_view BelowOf(std::string_view path, std::string_view parent) {
  if (!path.starts_with(parent) || path.size() <= parent.size() + 1 || path[parent.size()] != '/') return {};
  const std::string_view rest = path.substr(parent.size() + 1);
  return rest.find('/') == std::string_view::npos ? rest : std::string_view();
}

JsonDocument Document() {
  JsonDocument json;
  json.Text("apiVersion", kApiVersion);
  return json;
}

HttpAnswer Found(JsonDocument& json) {
  return {.body = json.Finish() + '\n'};
}

Error BadParameter(std::string_view name, std::string_view value, std::string_view wanted) {
  return Error(ErrorKind::kRejected, "bad_parameter", fmt::format("{}: `{}` is not {}", name, value, wanted));
}

Result<std::int64_t> Integer(const DashboardRequest& request, std::string_view name, std::int64_t low,
                             std::int64_t high, std::int64_t otherwise) {
  const auto text = request.Find(name);
  if (!text) return otherwise;
  const auto number = IntegerOption(name, *text, low, high);
  if (!number) return BadParameter(name, *text, fmt::format("a whole number from {} to {}", low, high));
  return *number;
}

Result<std::size_t> Limit(const DashboardRequest& request, std::int64_t otherwise) {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t limit, Integer(request, "limit", 1, kRowsMax, otherwise));
  return static_cast<std::size_t>(limit);
}

Result<std::optional<Timestamp>> Time(const DashboardRequest& request, std::string_view name) {
  const auto text = request.Find(name);
  if (!text) return std::optional<Timestamp>();
  const auto time = ParseRfc3339(*text);
  if (!time) return BadParameter(name, *text, "a time like 2026-05-06T07:08:09Z");
  return time;
}

/// A word of a closed list, by the function that reads it.
template <class Parse>
auto Word(const DashboardRequest& request, std::string_view name, const Parse& parse)
    -> Result<decltype(parse(std::string_view()))> {
  const auto text = request.Find(name);
  if (!text) return decltype(parse(std::string_view()))();
  const auto word = parse(std::string_view(*text));
  if (!word) return BadParameter(name, *text, "one of its values");
  return word;
}

Result<EventId> Id(std::string_view text) {
  const auto id = EventId::Parse(text);
  if (!id) {
    return Error(ErrorKind::kRejected, "bad_event_id", "that is not an id")
        .WithHint("an id looks like 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f");
  }
  return *id;
}

Error NotFound(std::string_view what) {
  return Error(ErrorKind::kRejected, "not_found", std::string(what));
}

template <class Item, class ToJson>
std::string Items(const std::vector<Item>& items, const ToJson& to_json) {
  std::vector<std::string> texts;
  for (const Item& item : items) texts.push_back(to_json(item));
  return JsonArray(texts);
}

std::string Letters(const std::vector<DeadLetter>& letters) {
  return Items(letters, DeadLetterJson);
}

std::string MessageWithoutPayload(const StoredMessage& message) {
  return MessageJson(message, false);
}

Result<HttpAnswer> ListMessages(const DashboardRequest& request, Desks& desks) {
  constexpr std::array<std::string_view, 13> kKnown = {
      "topic",          "key",   "type",  "tenant", "status", "route", "aggregate_type", "aggregate_id",
      "correlation_id", "since", "until", "before", "limit"};
  SEALANE_RETURN_IF_ERROR(CheckParameters(request, kKnown));
  MessageFilter filter;
  filter.topic = request.Find("topic");
  filter.key = request.Find("key");
  filter.type = request.Find("type");
  filter.tenant = request.Find("tenant");
  filter.route = request.Find("route");
  filter.aggregate_type = request.Find("aggregate_type");
  filter.aggregate_id = request.Find("aggregate_id");
  filter.correlation_id = request.Find("correlation_id");
  SEALANE_ASSIGN_OR_RETURN(filter.state, Word(request, "status", ParseDeliveryState));
  SEALANE_ASSIGN_OR_RETURN(filter.since, Time(request, "since"));
  SEALANE_ASSIGN_OR_RETURN(filter.until, Time(request, "until"));
  if (request.Find("before")) {
    SEALANE_ASSIGN_OR_RETURN(filter.before_seq,
                             Integer(request, "before", 0, std::numeric_limits<std::int64_t>::max(), 0));
  }
  SEALANE_ASSIGN_OR_RETURN(filter.limit, Limit(request, 50));
  SEALANE_ASSIGN_OR_RETURN(const auto messages,
                           desks.Messages([&](OutboxStore& desk) { return desk.ListMessages(filter); }));
  JsonDocument json = Document();
  json.Raw("messages", Items(messages, MessageWithoutPayload));
  if (messages.size() == filter.limit) json.Integer("next_before", messages.back().seq);
  return Found(json);
}

// What a desk says, unless this user may not ask it.
template <class Answer>
Result<Answer> UnlessForbidden(Result<Answer> answer) {
  if (!answer && answer.error().code() == "not_permitted") return Answer();
  return answer;
}

Result<HttpAnswer> ShowMessage(const EventId& id, Desks& desks) {
  auto message = desks.Messages([&](OutboxStore& desk) { return desk.FindMessage(id); });
  // Whoever may not read payloads, or finds one that has changed, still gets to see the rest of its life.
  if (!message && message.error().kind() != ErrorKind::kCorrupt) return message.error();
  SEALANE_ASSIGN_OR_RETURN(const auto letters,
                           UnlessForbidden(desks.Letters([&](DeadLetters& desk) { return desk.Find(id); })));
  SEALANE_ASSIGN_OR_RETURN(
      const InboxFindings inbox,
      UnlessForbidden(desks.Inbox([&](InboxDesk& desk) { return desk.Find(std::nullopt, id); })));
  const bool known = message && message->has_value();
  if (message && !known && letters.empty() && inbox.empty()) {
    return NotFound("no event with this id is in the log, nor does a consumer know it");
  }
  JsonDocument json = Document();
  if (known) json.Raw("message", MessageWithoutPayload(**message));
  if (!message) json.Raw("message_problem", ErrorJson(message.error()));
  json.Raw("relay", Letters(letters))
      .Raw("receipts", Items(inbox.receipts, InboxReceiptJson))
      .Raw("consumers", Items(inbox.parked, ParkedEventJson));
  return Found(json);
}

/// One section of a document: the rows and whether there may be more, or why they cannot be seen.
template <class Row, class ToJson>
Status AddRows(JsonDocument& json, const std::string& name, const Result<std::vector<Row>>& rows, std::size_t limit,
               const ToJson& to_json) {
  if (rows) {
    json.Raw(name, Items(*rows, to_json)).Truth(name + "_more", rows->size() >= limit);
  } else if (rows.error().code() == "not_permitted") {
    json.Raw(name + "_problem", ErrorJson(rows.error()));
  } else {
    return rows.error();
  }
  return Ok();
}

Result<std::vector<TaskSummary>> TroubledTasks(TaskDesk& desk, std::size_t limit) {
  SEALANE_ASSIGN_OR_RETURN(auto tasks, desk.List({.state = TaskState::kDead, .limit = limit}));
  SEALANE_ASSIGN_OR_RETURN(const auto failed, desk.List({.state = TaskState::kFailed, .limit = limit}));
  for (const TaskSummary& task : failed) {
    if (tasks.size() < limit) tasks.push_back(task);
  }
  return tasks;
}

Result<HttpAnswer> ListAside(const DashboardRequest& request, Desks& desks) {
  constexpr std::array<std::string_view, 1> kKnown = {"limit"};
  SEALANE_RETURN_IF_ERROR(CheckParameters(request, kKnown));
  SEALANE_ASSIGN_OR_RETURN(const std::size_t limit, Limit(request, 100));
  JsonDocument json = Document();
  SEALANE_RETURN_IF_ERROR(AddRows(json, "relay",
                                  desks.Letters([&](DeadLetters& desk) { return desk.List({.limit = limit}); }),
                                  limit, DeadLetterJson));
  SEALANE_RETURN_IF_ERROR(AddRows(json, "consumers",
                                  desks.Inbox([&](InboxDesk& desk) { return desk.Parked({.limit = limit}); }), limit,
                                  ParkedEventJson));
  SEALANE_RETURN_IF_ERROR(AddRows(json, "tasks",
                                  desks.Tasks([&](TaskDesk& desk) { return TroubledTasks(desk, limit); }), limit,
                                  TaskSummaryJson));
  return Found(json);
}

Result<HttpAnswer> ListReceipts(const DashboardRequest& request, Desks& desks) {
  constexpr std::array<std::string_view, 6> kKnown = {"consumer",       "state",        "topic",
                                                      "aggregate_type", "aggregate_id", "limit"};
  SEALANE_RETURN_IF_ERROR(CheckParameters(request, kKnown));
  ReceiptFilter filter;
  filter.consumer = request.Find("consumer");
  SEALANE_ASSIGN_OR_RETURN(filter.state, Word(request, "state", ParseInboxState));
  filter.topic = request.Find("topic");
  filter.aggregate_type = request.Find("aggregate_type");
  filter.aggregate_id = request.Find("aggregate_id");
  SEALANE_ASSIGN_OR_RETURN(filter.limit, Limit(request, 50));
  SEALANE_ASSIGN_OR_RETURN(const auto receipts, desks.Inbox([&](InboxDesk& desk) { return desk.List(filter); }));
  JsonDocument json = Document();
  json.Raw("receipts", Items(receipts, InboxReceiptJson)).Truth("more", receipts.size() >= filter.limit);
  return Found(json);
}

Result<HttpAnswer> ListTasks(const DashboardRequest& request, Desks& desks) {
  constexpr std::array<std::string_view, 7> kKnown = {"state",           "target",     "operation", "tenant",
                                                      "idempotency_key", "error_code", "limit"};
  SEALANE_RETURN_IF_ERROR(CheckParameters(request, kKnown));
  TaskFilter filter;
  SEALANE_ASSIGN_OR_RETURN(filter.state, Word(request, "state", ParseTaskState));
  filter.target = request.Find("target");
  filter.operation = request.Find("operation");
  filter.tenant = request.Find("tenant");
  filter.idempotency_key = request.Find("idempotency_key");
  filter.error_code = request.Find("error_code");
  SEALANE_ASSIGN_OR_RETURN(filter.limit, Limit(request, 50));
  SEALANE_ASSIGN_OR_RETURN(const auto tasks, desks.Tasks([&](TaskDesk& desk) { return desk.List(filter); }));
  JsonDocument json = Document();
  json.Raw("tasks", Items(tasks, TaskSummaryJson)).Truth("more", tasks.size() >= filter.limit);
  return Found(json);
}

Result<HttpAnswer> ShowTask(const EventId& id, Desks& desks) {
  SEALANE_ASSIGN_OR_RETURN(const auto details, desks.Tasks([&](TaskDesk& desk) { return desk.Find(id); }));
  if (!details) return NotFound("there is no task with this id; one that is over is forgotten after a while");
  JsonDocument json = Document();
  json.Raw("task", TaskHistoryJson(*details));
  return Found(json);
}

std::string RecordJson(const AuditRecord& record) {
  return JsonDocument()
      .Integer("id", record.id)
      .Time("at", record.at)
      .Text("actor", record.actor)
      .Text("action", record.action)
      .Text("target", record.target)
      .Text("reason", record.reason)
      .Text("login", record.login)
      .Text("client", record.client)
      .Text("application", record.application)
      .Finish();
}

Result<HttpAnswer> ListAudit(const DashboardRequest& request, Desks& desks) {
  constexpr std::array<std::string_view, 1> kKnown = {"limit"};
  SEALANE_RETURN_IF_ERROR(CheckParameters(request, kKnown));
  SEALANE_ASSIGN_OR_RETURN(const std::size_t limit, Limit(request, 100));
  SEALANE_ASSIGN_OR_RETURN(const auto records, desks.Letters([&](DeadLetters& desk) { return desk.Audit(limit); }));
  JsonDocument json = Document();
  json.Raw("records", Items(records, RecordJson)).Truth("more", records.size() >= limit);
  return Found(json);
}

Result<HttpAnswer> Answer(const DashboardRequest& request, Desks& desks) {
  if (request.path == kMessages) return ListMessages(request, desks);
  if (request.path == kAside) return ListAside(request, desks);
  if (request.path == kReceipts) return ListReceipts(request, desks);
  if (request.path == kTasks) return ListTasks(request, desks);
  if (request.path == kAudit) return ListAudit(request, desks);
  SEALANE_RETURN_IF_ERROR(CheckParameters(request, {}));
  if (const std::string_view id = BelowOf(request.path, kMessages); !id.empty()) {
    SEALANE_ASSIGN_OR_RETURN(const EventId parsed, Id(id));
    return ShowMessage(parsed, desks);
  }
  SEALANE_ASSIGN_OR_RETURN(const EventId parsed, Id(BelowOf(request.path, kTasks)));
  return ShowTask(parsed, desks);
}

int StatusOf(const Error& error) {
  if (error.code() == "not_found") return 404;
  if (error.code() == "not_permitted") return 403;
  switch (error.kind()) {
    case ErrorKind::kRejected:
    case ErrorKind::kMisuse:
      return 400;
    case ErrorKind::kUnavailable:
    case ErrorKind::kConflict:
    case ErrorKind::kMisconfigured:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

bool IsDashboardApi(std::string_view path) {
  for (const std::string_view known : {kMessages, kAside, kReceipts, kTasks, kAudit}) {
    if (path == known) return true;
  }
  return !BelowOf(path, kMessages).empty() || !BelowOf(path, kTasks).empty();
}

HttpAnswer AnswerError(const Error& error) {
  JsonDocument json;
  json.Raw("error", ErrorJson(error));
  return {.status = StatusOf(error), .body = json.Finish() + '\n'};
}

HttpAnswer AnswerDashboardApi(const DashboardRequest& request, Desks& desks) {
  Result<HttpAnswer> answer = Answer(request, desks);
  return answer ? *std::move(answer) : AnswerError(answer.error());
}

}  // namespace sealane::cli
