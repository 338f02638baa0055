// Which database roles may work as which consumer.
#include <ostream>

#include <fmt/format.h>

#include "base/time_text.hpp"
#include "commands/inbox.hpp"
#include "commands/operator_options.hpp"
#include "store_factory.hpp"

namespace sealane::cli {
namespace {

Result<std::unique_ptr<ConsumerGrants>> Open(CommandContext& context) {
  SEALANE_ASSIGN_OR_RETURN(const Config* settings, context.config());
  return OpenConsumerGrants(settings->store());
}

class InboxGrantsCommand final : public Command {
 public:
  std::string_view path() const override { return "inbox grants"; }
  std::string_view summary() const override { return "list which database roles may work as which consumer"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane inbox grants", "sealane inbox grants --consumer billing -o json"};
  }
  std::vector<OptionSpec> Options() override { return {{"--consumer", "NAME", "of this consumer only", &consumer_}}; }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const auto store, Open(context));
    SEALANE_ASSIGN_OR_RETURN(const auto grants, store->List(consumer_));
    if (context.is_table()) {
      if (grants.empty()) {
        context.err() << "no consumer is granted to a role\n";
        return ExitCode::kDone;
      }
      Table table({"CONSUMER", "ROLE", "SINCE"});
      for (const ConsumerGrant& grant : grants) {
        table.Add({grant.consumer, grant.role, ToRfc3339(grant.granted_at)});
      }
      context.out() << table.Render(context.color());
      return ExitCode::kDone;
    }
    std::vector<std::string> items;
    for (const ConsumerGrant& grant : grants) {
      items.push_back(JsonDocument()
                          .Text("consumer", grant.consumer)
                          .Text("role", grant.role)
                          .Time("granted_at", grant.granted_at)
                          .Finish());
    }
    if (context.format() == OutputFormat::kJsonl) {
      for (const std::string& item : items) context.out() << item << '\n';
      return ExitCode::kDone;
    }
    context.out() << JsonDocument().Text("apiVersion", kApiVersion).Raw("grants", JsonArray(items)).Finish() << '\n';
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> consumer_;
};

/// `inbox grant` and `inbox revoke`.
class InboxGrantChangeCommand final : public Command {
 public:
  explicit InboxGrantChangeCommand(bool grants) : grants_(grants) {}

  std::string_view path() const override { return grants_ ? "inbox grant" : "inbox revoke"; }
  std::string_view summary() const override {
    return grants_ ? "let a database role work as a consumer" : "stop a database role from working as a consumer";
  }
  std::vector<std::string_view> examples() const override {
    if (grants_) return {"sealane inbox grant --consumer billing --role billing_app --reason \"new service\""};
    return {"sealane inbox revoke --consumer billing --role billing_app --reason \"service retired\""};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {{"--consumer", "NAME", "the consumer", &consumer_, true},
                                       {"--role", "ROLE", "a role of the database server", &role_, true}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto store, Open(context));
    SEALANE_ASSIGN_OR_RETURN(const bool changed, grants_ ? store->Grant(*consumer_, *role_, action)
                                                         : store->Revoke(*consumer_, *role_, action));
    if (!context.is_table()) {
      context.out() << JsonDocument()
                           .Text("apiVersion", kApiVersion)
                           .Text("consumer", *consumer_)
                           .Text("role", *role_)
                           .Integer("changed", changed ? 1 : 0)
                           .Finish()
                    << '\n';
      return ExitCode::kDone;
    }
    context.out() << fmt::format("{} {}{}\n", *role_, Outcome(changed), *consumer_);
    context.SuggestNext(fmt::format("sealane inbox grants --consumer {}", *consumer_));
    return ExitCode::kDone;
  }

 private:
  std::string_view Outcome(bool changed) const {
    if (grants_) return changed ? "may now work as consumer " : "may already work as consumer ";
    return changed ? "may no longer work as consumer " : "was not granted consumer ";
  }

  bool grants_;
  std::optional<std::string> consumer_;
  std::optional<std::string> role_;
  OperatorOptions operator_;
};

}  // namespace

std::unique_ptr<Command> MakeInboxGrantsCommand() {
  return std::make_unique<InboxGrantsCommand>();
}
std::unique_ptr<Command> MakeInboxGrantCommand() {
  return std::make_unique<InboxGrantChangeCommand>(true);
}
std::unique_ptr<Command> MakeInboxRevokeCommand() {
  return std::make_unique<InboxGrantChangeCommand>(false);
}

}  // namespace sealane::cli
