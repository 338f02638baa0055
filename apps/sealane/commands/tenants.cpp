#include "commands/tenants.hpp"

#include <algorithm>
#include <functional>
#include <ostream>

#include <fmt/format.h>

#include "commands/operator_options.hpp"
#include "tenant_view.hpp"

namespace sealane::cli {
namespace {

class TenantsListCommand final : public Command {
 public:
  std::string_view path() const override { return "tenants list"; }
  std::string_view summary() const override { return "list tenants that are paused, limited or weighted"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane tenants list", "sealane tenants list --route billing -o json"};
  }
  std::vector<OptionSpec> Options() override { return {{"--route", "NAME", "the route (default: main)", &route_}}; }

  Result<ExitCode> Run(CommandContext& context) override {
    const std::string route = route_.value_or(std::string(kDefaultRoute));
    SEALANE_ASSIGN_OR_RETURN(const auto letters, context.OpenStoreDeadLetters());
    SEALANE_ASSIGN_OR_RETURN(const auto rules, letters->Tenants(route));
    if (context.is_table()) {
      if (rules.empty()) {
        context.err() << fmt::format("no tenant of route {} has a rule: all are treated alike\n", route);
        return ExitCode::kDone;
      }
      Table table({"TENANT", "PAUSED", "RATE MAX", "WEIGHT"});
      for (const TenantRule& rule : rules) {
        table.Add({rule.tenant, rule.paused ? "yes" : "no",
                   rule.rate_max == 0 ? "-" : fmt::format("{}/s", rule.rate_max), fmt::format("{}", rule.weight)});
      }
      context.out() << table.Render(context.color());
      return ExitCode::kDone;
    }
    std::vector<std::string> items;
    for (const TenantRule& rule : rules) items.push_back(TenantRuleJson(route, rule));
    if (context.format() == OutputFormat::kJsonl) {
      for (const std::string& item : items) context.out() << item << '\n';
      return ExitCode::kDone;
    }
    context.out() << JsonDocument().Text("apiVersion", kApiVersion).Raw("tenants", JsonArray(items)).Finish() << '\n';
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> route_;
};

/// What one of the changing commands is called and does to a rule.
struct TenantChange {
  std::string_view path;
  std::string_view summary;
  std::string_view example;
  std::string_view value_name;  ///< of its second argument; empty: it has none
  std::string_view value_help;
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::function<void(TenantRule&, std::int64_t)> apply;
};

class TenantChangeCommand final : public Command {
 public:
  explicit TenantChangeCommand(TenantChange change) : change_(std::move(change)) {}

  std::string_view path() const override { return change_.path; }
  std::string_view summary() const override { return change_.summary; }
  std::vector<std::string_view> examples() const override { return {change_.example}; }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {{"tenant", "TENANT", "the tenant", &tenant_, true}};
    if (!change_.value_name.empty()) {
      options.push_back({"value", std::string(change_.value_name), std::string(change_.value_help), &value_, true});
    }
    options.push_back({"--route", "NAME", "the route (default: main)", &route_});
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    std::int64_t value = 0;
    if (value_) {
      SEALANE_ASSIGN_OR_RETURN(value, IntegerOption(change_.value_name, *value_, change_.low, change_.high));
    }
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    const std::string route = route_.value_or(std::string(kDefaultRoute));
    SEALANE_ASSIGN_OR_RETURN(const auto letters, context.OpenStoreDeadLetters());
    SEALANE_ASSIGN_OR_RETURN(const auto rules, letters->Tenants(route));
    const auto known =
        std::find_if(rules.begin(), rules.end(), [&](const TenantRule& rule) { return rule.tenant == *tenant_; });
    TenantRule rule = known == rules.end() ? TenantRule{.tenant = *tenant_} : *known;
    change_.apply(rule, value);
    SEALANE_RETURN_IF_ERROR(letters->SetTenant(route, rule, action));
    if (context.is_table()) {
      context.out() << fmt::format(
          "tenant {} on route {}: {}, {}, weight {}\n", rule.tenant, route, rule.paused ? "paused" : "flowing",
          rule.rate_max == 0 ? "no limit" : fmt::format("at most {}/s", rule.rate_max), rule.weight);
      context.SuggestNext(fmt::format("sealane tenants list --route {}", route));
    } else {
      context.out()
          << JsonDocument().Text("apiVersion", kApiVersion).Raw("tenant", TenantRuleJson(route, rule)).Finish()
          << '\n';
    }
    return ExitCode::kDone;
  }

 private:
  const TenantChange change_;
  std::optional<std::string> tenant_;
  std::optional<std::string> value_;
  std::optional<std::string> route_;
  OperatorOptions operator_;
};

}  // namespace

std::unique_ptr<Command> MakeTenantsListCommand() {
  return std::make_unique<TenantsListCommand>();
}
std::unique_ptr<Command> MakeTenantsPauseCommand() {
  return std::make_unique<TenantChangeCommand>(TenantChange{
      .path = "tenants pause",
      .summary = "stop publishing one tenant's events; they wait",
      .example = "sealane tenants pause acme --reason \"INC-42\"",
      .value_name = {},
      .value_help = {},
      .apply = [](TenantRule& rule, std::int64_t) { rule.paused = true; },
  });
}
std::unique_ptr<Command> MakeTenantsResumeCommand() {
  return std::make_unique<TenantChangeCommand>(TenantChange{
      .path = "tenants resume",
      .summary = "let a paused tenant go on",
      .example = "sealane tenants resume acme --reason \"INC-42 is over\"",
      .value_name = {},
      .value_help = {},
      .apply = [](TenantRule& rule, std::int64_t) { rule.paused = false; },
  });
}
std::unique_ptr<Command> MakeTenantsLimitCommand() {
  return std::make_unique<TenantChangeCommand>(TenantChange{
      .path = "tenants limit",
      .summary = "limit a tenant's events per second over all relays",
      .example = "sealane tenants limit acme 200 --reason \"their endpoint is slow\"",
      .value_name = "RATE",
      .value_help = "events per second; 0 is without limit",
      .low = 0,
      .high = 1'000'000'000,
      .apply = [](TenantRule& rule, std::int64_t value) { rule.rate_max = value; },
  });
}
std::unique_ptr<Command> MakeTenantsWeightCommand() {
  return std::make_unique<TenantChangeCommand>(TenantChange{
      .path = "tenants weight",
      .summary = "give a tenant a larger share of a crowded relay",
      .example = "sealane tenants weight acme 4 --reason \"premium contract\"",
      .value_name = "WEIGHT",
      .value_help = "its share compared with others; 1 is normal",
      .low = 1,
      .high = 1'000,
      .apply = [](TenantRule& rule, std::int64_t value) { rule.weight = static_cast<std::int32_t>(value); },
  });
}

}  // namespace sealane::cli
