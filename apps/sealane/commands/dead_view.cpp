// The commands that look at what was set aside and change nothing.
#include <ostream>

#include <fmt/format.h>

#include "commands/dead.hpp"
#include "commands/dead_filter.hpp"
#include "dead_letter_view.hpp"
#include "ops/operator_action.hpp"

namespace sealane::cli {
namespace {

class DeadListCommand final : public Command {
 public:
  std::string_view path() const override { return "dead list"; }
  std::string_view summary() const override { return "list events that failed and wait, longest waiting first"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane dead list", "sealane dead list --topic orders --state DEAD -o json"};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options;
    filter_.AddTo(options);
    options.push_back({"--state", "STATE", "WAITING, FAILED, DEAD or DISCARDED (default: FAILED and DEAD)", &state_,
                       false, "WAITING|FAILED|DEAD|DISCARDED"});
    options.push_back({"--limit", "N", "at most this many (default: 50)", &limit_});
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    DeadLetterFilter filter = filter_.Filter();
    if (limit_) {
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t limit,
                               IntegerOption("--limit", *limit_, 1, static_cast<std::int64_t>(kDeadLettersMax)));
      filter.limit = static_cast<std::size_t>(limit);
    }
    if (state_) {
      filter.state = ParseParkedState(*state_);
      if (!filter.state) {
        return BadUsage(fmt::format("--state: `{}` is none of WAITING, FAILED, DEAD, DISCARDED", *state_), {},
                        "--state");
      }
    }
    SEALANE_ASSIGN_OR_RETURN(const auto letters, context.OpenStoreDeadLetters());
    SEALANE_ASSIGN_OR_RETURN(const auto found, letters->List(filter));
    Print(context, found, found.size() == filter.limit);
    return ExitCode::kDone;
  }

 private:
  static void Print(CommandContext& context, const std::vector<DeadLetter>& found, bool more) {
    if (context.is_table()) {
      if (found.empty()) {
        context.err() << "nothing is set aside\n";
        return;
      }
      context.out() << DeadLetterTable(found, context.color());
      if (more) context.err() << "there may be more: raise --limit or narrow it down\n";
      context.SuggestNext(fmt::format("sealane dead show {}", found.front().id.ToString()));
      return;
    }
    std::vector<std::string> items;
    for (const DeadLetter& letter : found) items.push_back(DeadLetterJson(letter));
    if (context.format() == OutputFormat::kJsonl) {
      for (const std::string& item : items) context.out() << item << '\n';
      return;
    }
    context.out() << JsonDocument()
                         .Text("apiVersion", kApiVersion)
                         .Raw("dead_letters", JsonArray(items))
                         .Truth("more", more)
                         .Finish()
                  << '\n';
  }

  DeadFilterOptions filter_;
  std::optional<std::string> state_;
  std::optional<std::string> limit_;
};

class DeadShowCommand final : public Command {
 public:
  std::string_view path() const override { return "dead show"; }
  std::string_view summary() const override { return "show why one event failed and what waits behind it"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane dead show 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f"};
  }
  std::vector<OptionSpec> Options() override { return {{"id", "ID", "the event's id", &id_, true}}; }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const EventId id, ParseEventIdOption(*id_));
    SEALANE_ASSIGN_OR_RETURN(const auto letters, context.OpenStoreDeadLetters());
    SEALANE_ASSIGN_OR_RETURN(const auto found, letters->Find(id));
    if (found.empty()) return NotSetAside(id, std::nullopt);
    if (!context.is_table()) {
      std::vector<std::string> items;
      for (const DeadLetter& letter : found) items.push_back(DeadLetterJson(letter));
      context.out() << JsonDocument().Text("apiVersion", kApiVersion).Raw("dead_letters", JsonArray(items)).Finish()
                    << '\n';
      return ExitCode::kDone;
    }
    for (std::size_t i = 0; i < found.size(); ++i)
      context.out() << (i > 0 ? "\n" : "") << DeadLetterDetails(found[i]);
    context.SuggestNext(fmt::format("sealane dead retry {} --reason \"...\"", id.ToString()));
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> id_;
};

}  // namespace

std::unique_ptr<Command> MakeDeadListCommand() {
  return std::make_unique<DeadListCommand>();
}
std::unique_ptr<Command> MakeDeadShowCommand() {
  return std::make_unique<DeadShowCommand>();
}

}  // namespace sealane::cli
