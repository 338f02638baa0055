#include "commands/messages_list.hpp"

#include <algorithm>
#include <limits>
#include <ostream>

#include <fmt/format.h>

#include "message_view.hpp"
#include "time_option.hpp"

namespace sealane::cli {
namespace {

class MessagesListCommand final : public Command {
 public:
  std::string_view path() const override { return "messages list"; }
  std::string_view summary() const override { return "list committed events, newest first"; }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane messages list --topic orders --since 15m",
        "sealane messages list --status FAILED --route kafka",
        "sealane messages list --aggregate-type order --aggregate-id o-1 --payload -o jsonl",
    };
  }

  std::vector<OptionSpec> Options() override {
    return {
        {"--tenant", "NAME", "only of this tenant", &filter_.tenant},
        {"--topic", "NAME", "only of this topic", &filter_.topic},
        {"--key", "KEY", "only with this ordering key", &filter_.key},
        {"--type", "NAME", "only of this type", &filter_.type},
        {"--aggregate-type", "NAME", "only about this kind of thing", &filter_.aggregate_type},
        {"--aggregate-id", "ID", "only about this one", &filter_.aggregate_id},
        {"--correlation-id", "ID", "only what belongs to this", &filter_.correlation_id},
        {"--status", "STATUS", "PENDING, PUBLISHING, PUBLISHED, FAILED, DEAD or DISCARDED", &status_, false,
         "PENDING|PUBLISHING|PUBLISHED|FAILED|DEAD|DISCARDED"},
        {"--route", "NAME", "look at this route only", &filter_.route},
        {"--since", "TIME", "appended at or after: RFC 3339, or 15m for fifteen minutes ago", &since_},
        {"--until", "TIME", "appended before: RFC 3339, or 15m", &until_},
        {"--limit", "N", "at most this many (default: 50, at most 10000)", &limit_},
        {"--before-seq", "N", "the next page: older than this sequence number", &before_seq_},
        {"--payload", "", "show payloads", &filter_.with_payload},
    };
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_RETURN_IF_ERROR(Complete(context.clock().Now()));
    SEALANE_ASSIGN_OR_RETURN(const auto store, context.OpenStore());
    SEALANE_ASSIGN_OR_RETURN(const auto messages, store->ListMessages(filter_));
    Print(context, messages);
    return ExitCode::kDone;
  }

 private:
  Status Complete(Timestamp now) {
    if (status_) {
      std::string word = *status_;
      std::transform(word.begin(), word.end(), word.begin(),
                     [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
      filter_.state = ParseDeliveryState(word);
      if (!filter_.state) {
        return BadUsage(fmt::format("--status: `{}` is not a status", *status_),
                        "use PENDING, PUBLISHING, PUBLISHED, FAILED, DEAD or DISCARDED", "--status");
      }
    }
    SEALANE_RETURN_IF_ERROR(SetTime("--since", since_, now, filter_.since));
    SEALANE_RETURN_IF_ERROR(SetTime("--until", until_, now, filter_.until));
    if (limit_) {
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t limit,
                               IntegerOption("--limit", *limit_, 1, std::int64_t{MessageFilter::kListMax}));
      filter_.limit = static_cast<std::size_t>(limit);
    }
    if (before_seq_) {
      SEALANE_ASSIGN_OR_RETURN(filter_.before_seq, IntegerOption("--before-seq", *before_seq_, 0,
                                                                 std::numeric_limits<std::int64_t>::max()));
    }
    return Ok();
  }

  static Status SetTime(const char* flag, const std::optional<std::string>& text, Timestamp now,
                        std::optional<Timestamp>& target) {
    if (!text) return Ok();
    auto time = ParsePastTime(*text, now);
    if (!time) return BadUsage(fmt::format("{}: {}", flag, time.error().message()), time.error().hint(), flag);
    target = *time;
    return Ok();
  }

  void Print(CommandContext& context, const std::vector<StoredMessage>& messages) const {
    const bool more = messages.size() == filter_.limit;
    if (context.is_table()) {
      if (messages.empty()) {
        context.err() << "no messages\n";
        return;
      }
      context.out() << MessageTable(messages, filter_.with_payload, context.color());
      if (more) context.err() << fmt::format("older ones: --before-seq {}\n", messages.back().seq);
      return;
    }
    std::vector<std::string> items;
    for (const StoredMessage& message : messages) items.push_back(MessageJson(message, filter_.with_payload));
    if (context.format() == OutputFormat::kJsonl) {
      for (const std::string& item : items) context.out() << item << '\n';
      return;
    }
    JsonDocument document;
    document.Text("apiVersion", kApiVersion).Raw("messages", JsonArray(items));
    if (more) {
      document.Integer("next_before_seq", messages.back().seq);
    } else {
      document.Null("next_before_seq");
    }
    context.out() << document.Finish() << '\n';
  }

  MessageFilter filter_;
  std::optional<std::string> status_;
  std::optional<std::string> since_;
  std::optional<std::string> until_;
  std::optional<std::string> limit_;
  std::optional<std::string> before_seq_;
};

}  // namespace

std::unique_ptr<Command> MakeMessagesListCommand() {
  return std::make_unique<MessagesListCommand>();
}

}  // namespace sealane::cli
