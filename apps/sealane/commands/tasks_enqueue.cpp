#include <ostream>

#include <fmt/format.h>

#include "sealane/tasks.hpp"

#include "commands/payload_source.hpp"
#include "commands/tasks.hpp"
#include "time_option.hpp"

namespace sealane::cli {
namespace {

class TasksEnqueueCommand final : public Command {
 public:
  std::string_view path() const override { return "tasks enqueue"; }
  std::string_view summary() const override { return "write a task, in a transaction of its own"; }
  std::vector<std::string_view> examples() const override {
    return {
        R"(sealane tasks enqueue --target billing --operation /charges --key order-1 --request '{"cents":500}')",
        R"(sealane tasks enqueue --target billing --operation /charges --key order-1 --request @charge.json )"
        R"(--result-topic billing.results)",
        R"(make-request | sealane tasks enqueue --target shipping --operation ship-order --key order-1 --request -)",
    };
  }
  std::vector<OptionSpec> Options() override {
    return {
        {"--target", "NAME", "where it is carried out", &target_, true},
        {"--operation", "TEXT", "a path below the target's URL, or a process id", &operation_, true},
        {"--key", "KEY", "the idempotency key: the same wish has the same key", &key_, true},
        {"--request", "TEXT|@FILE|-", "the body, a file that holds it, or - for stdin", &request_, true},
        {"--tenant", "NAME", "whose it is", &tenant_},
        {"--content-type", "TYPE", "of the request (default: application/json)", &content_type_},
        {"--header", "NAME=VALUE", "sent along; may be repeated", &headers_},
        {"--correlation-id", "ID", "what it belongs to", &correlation_},
        {"--causation-id", "ID", "what led to it", &causation_},
        {"--traceparent", "TEXT", "W3C trace context", &traceparent_},
        {"--result-topic", "NAME", "how it ended is told in an event for this topic", &result_topic_},
        {"--result-key", "KEY", "key of that event (default: the idempotency key)", &result_key_},
        {"--order-key", "KEY", "tasks of a target with the same one are carried out one after the other",
         &order_key_},
        {"--not-before", "TIME", "RFC 3339, or +5m from now", &not_before_},
    };
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(Task task, TaskFromFlags(context.clock().Now()));
    SEALANE_ASSIGN_OR_RETURN(task.request, ReadPayload(*request_, context.in(), "--request"));
    SEALANE_ASSIGN_OR_RETURN(const auto store, context.OpenStore());
    context.OnInterrupt("nothing was written");
    SEALANE_ASSIGN_OR_RETURN(const auto transaction, store->Begin());
    SEALANE_ASSIGN_OR_RETURN(const EnqueuedTask enqueued, Tasks().Enqueue(*transaction, task));
    context.OnInterrupt("the commit was under way, look with: sealane tasks list");
    SEALANE_RETURN_IF_ERROR(transaction->Commit());
    context.OnInterrupt("the task was written");
    Print(context, enqueued);
    return ExitCode::kDone;
  }

 private:
  Result<Task> TaskFromFlags(Timestamp now) const {
    Task task{.target = *target_, .operation = *operation_, .idempotency_key = *key_, .request = {}};
    task.tenant = tenant_.value_or("");
    task.content_type = content_type_.value_or(task.content_type);
    task.correlation_id = correlation_.value_or("");
    task.causation_id = causation_.value_or("");
    task.traceparent = traceparent_.value_or("");
    task.result_topic = result_topic_.value_or("");
    task.result_key = result_key_.value_or("");
    task.order_key = order_key_.value_or("");
    if (not_before_) {
      auto time = ParseFutureTime(*not_before_, now);
      if (!time) {
        return BadUsage(fmt::format("--not-before: {}", time.error().message()), time.error().hint(), "--not-before");
      }
      task.not_before = *time;
    }
    for (const std::string& header : headers_) {
      const std::size_t equals = header.find('=');
      if (equals == std::string::npos) {
        return BadUsage(fmt::format("--header: `{}` has no =", header), "write --header name=value", "--header");
      }
      task.headers.push_back({header.substr(0, equals), header.substr(equals + 1)});
    }
    return task;
  }

  static void Print(CommandContext& context, const EnqueuedTask& enqueued) {
    const std::string id = enqueued.id.ToString();
    if (!context.is_table()) {
      context.out() << JsonDocument().Text("task_id", id).Truth("already_there", enqueued.already_there).Finish()
                    << '\n';
      return;
    }
    context.out() << id << '\n';
    if (enqueued.already_there) {
      context.err() << "already there: the same task was enqueued before, nothing was written\n";
    }
    context.SuggestNext(fmt::format("sealane tasks show {}", id));
  }

  std::optional<std::string> target_;
  std::optional<std::string> operation_;
  std::optional<std::string> key_;
  std::optional<std::string> request_;
  std::optional<std::string> tenant_;
  std::optional<std::string> content_type_;
  std::vector<std::string> headers_;
  std::optional<std::string> correlation_;
  std::optional<std::string> causation_;
  std::optional<std::string> traceparent_;
  std::optional<std::string> result_topic_;
  std::optional<std::string> result_key_;
  std::optional<std::string> order_key_;
  std::optional<std::string> not_before_;
};

}  // namespace

std::unique_ptr<Command> MakeTasksEnqueueCommand() {
  return std::make_unique<TasksEnqueueCommand>();
}

}  // namespace sealane::cli
