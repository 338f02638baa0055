#include "commands/emit_lines.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>
#include <ostream>

#include <fmt/format.h>

#include "commands/event_json.hpp"
#include "commands/outbox_setup.hpp"

namespace sealane::cli {
namespace {

constexpr std::size_t kBatchEvents = 500;
constexpr std::size_t kBatchBytes = std::size_t{8} << 20U;

/// Feeds lines into one transaction, which is opened when the first batch is ready: a slow writer of the input holds
/// no transaction open before it has said anything.
class LineAppender {
 public:
  LineAppender(CommandContext& context, const Outbox& outbox) : context_(context), outbox_(outbox) {}

  Status Add(const std::string& line, std::size_t number) {
    auto event = EventFromJson(line, context_.clock().Now());
    if (!event) return std::move(event).error().WithContext(fmt::format("in line {}", number));
    auto entry = outbox_.Admit(*event);
    if (!entry) return std::move(entry).error().WithContext(fmt::format("in line {}", number));
    bytes_ += entry->envelope.payload.size();
    if (batch_.empty()) first_line_ = number;
    last_line_ = number;
    batch_.push_back(*std::move(entry));
    return batch_.size() >= kBatchEvents || bytes_ >= kBatchBytes ? Send() : Ok();
  }

  Result<std::vector<Appended>> Finish() {
    SEALANE_RETURN_IF_ERROR(Send());
    context_.OnInterrupt("the commit was under way, look with: sealane messages list");
    SEALANE_RETURN_IF_ERROR(transaction_->Commit());
    context_.OnInterrupt("the events were written");
    return std::move(appended_);
  }

 private:
  Status Send() {
    if (!transaction_) {
      SEALANE_ASSIGN_OR_RETURN(store_, context_.OpenStore());
      SEALANE_ASSIGN_OR_RETURN(transaction_, store_->Begin());
    }
    auto done = transaction_->Append(batch_);
    if (!done) {
      return std::move(done).error().WithContext(fmt::format("in lines {} to {}", first_line_, last_line_));
    }
    appended_.insert(appended_.end(), done->begin(), done->end());
    batch_.clear();
    bytes_ = 0;
    return Ok();
  }

  CommandContext& context_;
  const Outbox& outbox_;
  std::unique_ptr<OutboxStore> store_;
  std::unique_ptr<OwnedTransaction> transaction_;  // after its store, because it goes first
  std::vector<NewEntry> batch_;
  std::size_t bytes_ = 0;
  std::size_t first_line_ = 0;
  std::size_t last_line_ = 0;
  std::vector<Appended> appended_;
};

bool IsBlank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

void Print(CommandContext& context, const std::vector<Appended>& appended) {
  std::vector<std::string> items;
  std::size_t written = 0;
  for (const Appended& event : appended) {
    const std::string id = event.id.ToString();
    items.push_back(context.is_table()
                        ? id
                        : JsonDocument().Text("event_id", id).Truth("already_there", event.already_there).Finish());
    if (!event.already_there) ++written;
  }
  if (context.format() == OutputFormat::kJson) {
    context.out() << JsonDocument().Text("apiVersion", kApiVersion).Raw("events", JsonArray(items)).Finish() << '\n';
    return;
  }
  for (const std::string& item : items) context.out() << item << '\n';
  if (!context.is_table()) return;
  context.err() << fmt::format("{} events written, {} were already there\n", written, appended.size() - written);
  context.SuggestNext("sealane messages list");
}

Result<ExitCode> EmitFrom(CommandContext& context, std::istream& in, const std::string& name) {
  SEALANE_ASSIGN_OR_RETURN(const auto setup, OutboxSetup::Make(context));
  context.OnInterrupt("nothing was written");
  LineAppender appender(context, setup->outbox());
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (!IsBlank(line)) SEALANE_RETURN_IF_ERROR(appender.Add(line, number));
  }
  if (in.bad()) return BadUsage(fmt::format("--jsonl: cannot read {}", name), {}, "--jsonl");
  SEALANE_ASSIGN_OR_RETURN(const auto appended, appender.Finish());
  setup->Ring();
  Print(context, appended);
  return ExitCode::kDone;
}

}  // namespace

Result<ExitCode> EmitLines(CommandContext& context, const std::string& source) {
  if (source == "-") return EmitFrom(context, context.in(), "standard input");
  std::ifstream file(source, std::ios::binary);
  if (!file) {
    return BadUsage(fmt::format("--jsonl: cannot read {}: {}", source, std::strerror(errno)), "is the path right?",
                    "--jsonl");
  }
  return EmitFrom(context, file, source);
}

}  // namespace sealane::cli
