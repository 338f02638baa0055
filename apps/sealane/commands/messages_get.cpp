#include "commands/messages_get.hpp"

#include <ostream>

#include <fmt/format.h>

#include "message_view.hpp"

namespace sealane::cli {
namespace {

class MessagesGetCommand final : public Command {
 public:
  std::string_view path() const override { return "messages get"; }
  std::string_view summary() const override { return "show one event and where it stands on each route"; }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane messages get 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f",
        "sealane messages get 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f --raw > payload.bin",
    };
  }

  std::vector<OptionSpec> Options() override {
    return {
        {"id", "ID", "the event's id", &id_, true},
        {"--raw", "", "write the payload's bytes to standard output and nothing else", &raw_},
    };
  }

  Result<ExitCode> Run(CommandContext& context) override {
    const auto id = EventId::Parse(*id_);
    if (!id) return BadUsage(fmt::format("`{}` is not an event id", *id_), "an id is a UUID of 36 characters", "ID");
    SEALANE_ASSIGN_OR_RETURN(const auto store, context.OpenStore());
    SEALANE_ASSIGN_OR_RETURN(const auto message, store->FindMessage(*id));
    if (!message) {
      return Error(ErrorKind::kRejected, "not_found", fmt::format("there is no event {}", id->ToString()))
          .WithHint("it was never committed here, or retention has removed it; see sealane messages list");
    }
    if (raw_ && !message->payload_loaded) {
      return Error(ErrorKind::kMisconfigured, "not_permitted", "this database user may not read payloads")
          .WithHint("connect as a user with SELECT on the outbox table; the operator role sees everything else");
    }
    if (raw_) {
      context.out() << message->envelope.payload;
    } else if (context.is_table()) {
      context.out() << MessageDetails(*message, context.color());
    } else {
      context.out() << MessageJson(*message, true) << '\n';
    }
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> id_;
  bool raw_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeMessagesGetCommand() {
  return std::make_unique<MessagesGetCommand>();
}

}  // namespace sealane::cli
