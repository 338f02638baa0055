#include "commands/emit.hpp"

#include <istream>
#include <ostream>

#include <fmt/format.h>

#include "commands/emit_lines.hpp"
#include "commands/event_fields.hpp"
#include "commands/outbox_setup.hpp"
#include "commands/payload_source.hpp"

namespace sealane::cli {
namespace {

class EmitCommand final : public Command {
 public:
  std::string_view path() const override { return "emit"; }
  std::string_view summary() const override { return "append an event to the outbox, in a transaction of its own"; }
  std::vector<std::string_view> examples() const override {
    return {
        R"(sealane emit --topic orders --key o-1 --type OrderPlaced --payload '{"id":1}')",
        R"(sealane emit --topic orders --key o-1 --type OrderPlaced --payload @order.json --header source=shop)",
        R"(make-payload | sealane emit --topic mail --key u-7 --type SendWelcome --kind command --payload -)",
        R"(sealane emit --jsonl events.jsonl)",
    };
  }

  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options;
    for (std::size_t i = 0; i < EventFields().size(); ++i) {
      const EventField& field = EventFields()[i];
      std::string help(field.help);
      if (field.required) help += " (required)";
      options.push_back({FlagName(field), std::string(field.value_name), std::move(help), &fields_[i]});
    }
    options.push_back(
        {"--payload", "TEXT|@FILE|-", "the payload, a file that holds it, or - for stdin (required)", &payload_});
    options.push_back({"--header", "NAME=VALUE", "metadata for the broker; may be repeated", &headers_});
    options.push_back(
        {"--no-unique-version", "", "accept a second event for the same aggregate version", &not_unique_});
    options.push_back(
        {"--jsonl", "FILE|-", "append one event per line, all or none, instead of one from flags", &lines_});
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    if (lines_) {
      SEALANE_RETURN_IF_ERROR(CheckNoOtherFlags());
      return EmitLines(context, *lines_);
    }
    SEALANE_RETURN_IF_ERROR(CheckRequired());
    SEALANE_ASSIGN_OR_RETURN(Event event, EventFromFlags(context.clock().Now()));
    SEALANE_ASSIGN_OR_RETURN(const auto setup, OutboxSetup::Make(context));
    SEALANE_ASSIGN_OR_RETURN(event.payload, ReadPayload(*payload_, context.in()));
    SEALANE_ASSIGN_OR_RETURN(const NewEntry entry, setup->outbox().Admit(event));
    SEALANE_ASSIGN_OR_RETURN(const Appended appended, AppendOne(context, entry));
    setup->Ring();
    Print(context, appended);
    return ExitCode::kDone;
  }

 private:
  Status CheckRequired() const {
    for (std::size_t i = 0; i < EventFields().size(); ++i) {
      if (EventFields()[i].required && !fields_[i]) return Needs(FlagName(EventFields()[i]));
    }
    return payload_ ? Ok() : Needs("--payload");
  }

  static Status Needs(const std::string& flag) {
    return BadUsage(fmt::format("emit needs {}", flag), "sealane help emit shows examples", flag);
  }

  Status CheckNoOtherFlags() const {
    const auto both = [](const std::string& flag) {
      return BadUsage(fmt::format("--jsonl and {} cannot be used together", flag),
                      "put the value into the lines of the file", flag);
    };
    for (std::size_t i = 0; i < EventFields().size(); ++i) {
      if (fields_[i]) return both(FlagName(EventFields()[i]));
    }
    if (payload_) return both("--payload");
    if (!headers_.empty()) return both("--header");
    if (not_unique_) return both("--no-unique-version");
    return Ok();
  }

  Result<Event> EventFromFlags(Timestamp now) const {
    Event event;
    for (std::size_t i = 0; i < EventFields().size(); ++i) {
      if (!fields_[i]) continue;
      const EventField& field = EventFields()[i];
      if (auto set = field.set(event, *fields_[i], now); !set) {
        return BadUsage(fmt::format("{}: {}", FlagName(field), set.error().message()), set.error().hint(),
                        FlagName(field));
      }
    }
    for (const std::string& header : headers_) {
      const std::size_t equals = header.find('=');
      if (equals == std::string::npos) {
        return BadUsage(fmt::format("--header: `{}` has no =", header), "write --header name=value", "--header");
      }
      event.headers.push_back({header.substr(0, equals), header.substr(equals + 1)});
    }
    event.unique_version = !not_unique_;
    return event;
  }

  static Result<Appended> AppendOne(CommandContext& context, const NewEntry& entry) {
    SEALANE_ASSIGN_OR_RETURN(const auto store, context.OpenStore());
    context.OnInterrupt("nothing was written");
    SEALANE_ASSIGN_OR_RETURN(const auto transaction, store->Begin());
    SEALANE_ASSIGN_OR_RETURN(const auto appended, transaction->Append({&entry, 1}));
    context.OnInterrupt("the commit was under way, look with: sealane messages list");
    SEALANE_RETURN_IF_ERROR(transaction->Commit());
    context.OnInterrupt("the event was written");
    return appended.at(0);
  }

  static void Print(CommandContext& context, const Appended& appended) {
    const std::string id = appended.id.ToString();
    if (!context.is_table()) {
      context.out() << JsonDocument().Text("event_id", id).Truth("already_there", appended.already_there).Finish()
                    << '\n';
      return;
    }
    context.out() << id << '\n';
    if (appended.already_there)
      context.err() << "already there: the dedup key was used before, nothing was written\n";
    context.SuggestNext(fmt::format("sealane messages get {}", id));
  }

  std::vector<std::optional<std::string>> fields_ = std::vector<std::optional<std::string>>(EventFields().size());
  std::optional<std::string> payload_;
  std::vector<std::string> headers_;
  bool not_unique_ = false;
  std::optional<std::string> lines_;
};

}  // namespace

std::unique_ptr<Command> MakeEmitCommand() {
  return std::make_unique<EmitCommand>();
}

}  // namespace sealane::cli
