// The commands about routes: which there are, where they begin, whether they flow, and what to do when the outbox has
// moved to another server.
#include "commands/route.hpp"

#include <ostream>

#include <fmt/format.h>

#include "commands/operator_options.hpp"
#include "ops/route_desk.hpp"
#include "time_option.hpp"

namespace sealane::cli {
namespace {

std::string RouteJson(const RouteSummary& route) {
  JsonDocument document;
  document.Text("route", route.route)
      .Truth("paused", route.paused)
      .Integer("live_relays", route.live_relays)
      .Integer("lanes", route.lanes)
      .Integer("leased", route.leased)
      .Integer("pending", route.pending)
      .Truth("pending_exact", route.pending_exact)
      .Integer("waiting", route.waiting)
      .Integer("failed", route.failed)
      .Integer("dead", route.dead);
  if (route.oldest_pending) {
    document.Integer("oldest_pending_ms",
                     std::chrono::duration_cast<std::chrono::milliseconds>(*route.oldest_pending).count());
  }
  return document.Finish();
}

std::string AtLeast(std::int64_t count, bool exact) {
  return fmt::format("{}{}", exact ? "" : "at least ", count);
}

class RouteListCommand final : public Command {
 public:
  std::string_view path() const override { return "route list"; }
  std::string_view summary() const override { return "list the routes, how much waits on each, and its relays"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane route list", "sealane route list -o json"};
  }
  std::vector<OptionSpec> Options() override { return {}; }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const auto routes, context.OpenStoreRoutes());
    SEALANE_ASSIGN_OR_RETURN(const RouteReport report, routes->Look());
    if (context.is_table()) {
      Table table({"ROUTE", "STATE", "RELAYS", "PENDING", "WAITING", "FAILED", "DEAD"});
      for (const RouteSummary& route : report.routes) {
        table.Add({route.route,
                   route.paused            ? "paused"
                   : route.live_relays > 0 ? "flowing"
                                           : "no relay",
                   fmt::format("{}", route.live_relays), AtLeast(route.pending, route.pending_exact),
                   AtLeast(route.waiting, route.aside_exact), AtLeast(route.failed, route.aside_exact),
                   AtLeast(route.dead, route.aside_exact)});
      }
      context.out() << table.Render(context.color());
      return ExitCode::kDone;
    }
    std::vector<std::string> items;
    for (const RouteSummary& route : report.routes) items.push_back(RouteJson(route));
    if (context.format() == OutputFormat::kJsonl) {
      for (const std::string& item : items) context.out() << item << '\n';
      return ExitCode::kDone;
    }
    context.out() << JsonDocument().Text("apiVersion", kApiVersion).Raw("routes", JsonArray(items)).Finish() << '\n';
    return ExitCode::kDone;
  }
};

class RouteAddCommand final : public Command {
 public:
  std::string_view path() const override { return "route add"; }
  std::string_view summary() const override { return "add a route that begins where you say"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane route add search --from now --reason \"new search index\"",
            "sealane route add audit --from 2026-01-31T00:00:00Z --reason \"audit begins in February\""};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {
        {"name", "NAME", "the route", &name_, true},
        {"--from", "WHERE", "beginning, now, a time (RFC 3339), or 15m ago", &from_, true}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    RouteStart start;
    if (*from_ == "now") {
      start.kind = RouteStart::Kind::kNow;
    } else if (*from_ != "beginning") {
      start.kind = RouteStart::Kind::kTime;
      SEALANE_ASSIGN_OR_RETURN(start.at, ParsePastTime(*from_, SystemClock::Instance().Now()));
    }
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto routes, context.OpenStoreRoutes());
    SEALANE_RETURN_IF_ERROR(routes->Add(*name_, start, action));
    if (context.is_table()) {
      context.out() << fmt::format("route {} begins {}\n", *name_,
                                   *from_ == "beginning" ? "with the oldest event of the log"
                                   : *from_ == "now"     ? "with events committed from now on"
                                                         : "with events of that time");
      context.SuggestNext(fmt::format("sealane relay --route {}", *name_));
    } else {
      context.out()
          << JsonDocument().Text("apiVersion", kApiVersion).Text("route", *name_).Text("from", *from_).Finish()
          << '\n';
    }
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> name_;
  std::optional<std::string> from_;
  OperatorOptions operator_;
};

class RouteRemoveCommand final : public Command {
 public:
  std::string_view path() const override { return "route remove"; }
  std::string_view summary() const override { return "remove a route with its positions and what is parked on it"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane route remove trial --reason \"was an experiment\" --yes"};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {{"name", "NAME", "the route", &name_, true},
                                       {"--dry-run", "", "show what would go, and change nothing", &dry_run_},
                                       {"--yes", "", "do not ask", &yes_}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto routes, context.OpenStoreRoutes());
    SEALANE_ASSIGN_OR_RETURN(const RouteReport report, routes->Look());
    for (const RouteSummary& route : report.routes) {
      if (route.route != *name_) continue;
      const std::string loss = fmt::format("{} pending and {} parked events will not be published on it",
                                           AtLeast(route.pending, route.pending_exact),
                                           AtLeast(route.waiting + route.failed + route.dead, route.aside_exact));
      if (dry_run_) return Print(context, fmt::format("route {} would be removed: {}", *name_, loss), true, route);
      SEALANE_RETURN_IF_ERROR(Confirm(context, yes_, fmt::format("remove route {}? {}", *name_, loss)));
      SEALANE_RETURN_IF_ERROR(routes->Remove(*name_, action));
      return Print(context, fmt::format("route {} is removed: {}", *name_, loss), false, route);
    }
    // The store says that it is unknown.
    SEALANE_RETURN_IF_ERROR(routes->Remove(*name_, action));
    return ExitCode::kDone;
  }

 private:
  static Result<ExitCode> Print(CommandContext& context, const std::string& line, bool dry_run,
                                const RouteSummary& route) {
    if (context.is_table()) {
      context.out() << line << '\n';
    } else {
      context.out() << JsonDocument()
                           .Text("apiVersion", kApiVersion)
                           .Truth("dry_run", dry_run)
                           .Raw("removed", RouteJson(route))
                           .Finish()
                    << '\n';
    }
    return ExitCode::kDone;
  }

  std::optional<std::string> name_;
  bool dry_run_ = false;
  bool yes_ = false;
  OperatorOptions operator_;
};

class RouteRebaseCommand final : public Command {
 public:
  std::string_view path() const override { return "route rebase"; }
  std::string_view summary() const override {
    return "make all positions fit the server that the outbox was moved to";
  }
  std::vector<std::string_view> examples() const override {
    return {"sealane route rebase --dry-run --reason \"restored last night's dump\"",
            "sealane route rebase --reason \"restored last night's dump\" --yes"};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {{"--dry-run", "", "show what would be done, and change nothing", &dry_run_},
                                       {"--yes", "", "do not ask", &yes_}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto routes, context.OpenStoreRoutes());
    SEALANE_ASSIGN_OR_RETURN(RebaseReport plan, routes->PlanRebase());
    if (!plan.needed || dry_run_) return Print(context, plan, false);
    std::int64_t pending = 0;
    for (const RebaseReport::Route& route : plan.routes) pending += route.pending;
    SEALANE_RETURN_IF_ERROR(Confirm(context, yes_,
                                    fmt::format("rebase the outbox from server {} to {}? {} events will be published",
                                                plan.home, plan.here, pending)));
    context.OnInterrupt("either all of it was done or nothing, look with: sealane route rebase --dry-run");
    SEALANE_ASSIGN_OR_RETURN(const RebaseReport done, routes->Rebase(action));
    return Print(context, done, true);
  }

 private:
  static Result<ExitCode> Print(CommandContext& context, const RebaseReport& report, bool done) {
    if (context.is_table()) {
      if (!report.needed) {
        context.out() << fmt::format("nothing to do: the positions fit this server ({})\n", report.here);
        return ExitCode::kDone;
      }
      Table table({"ROUTE", "PUBLISHED BEFORE", "TO BE PUBLISHED"});
      for (const RebaseReport::Route& route : report.routes) {
        table.Add({route.route, fmt::format("{}", route.published), fmt::format("{}", route.pending)});
      }
      context.out() << table.Render(context.color());
      context.out() << fmt::format("{} from server {} to {}\n",
                                   done ? "rebased" : "would be rebased; nothing was changed:", report.home,
                                   report.here);
      if (done) context.SuggestNext("sealane route list");
      return ExitCode::kDone;
    }
    std::vector<std::string> items;
    for (const RebaseReport::Route& route : report.routes) {
      items.push_back(JsonDocument()
                          .Text("route", route.route)
                          .Integer("published", route.published)
                          .Integer("pending", route.pending)
                          .Finish());
    }
    context.out() << JsonDocument()
                         .Text("apiVersion", kApiVersion)
                         .Truth("needed", report.needed)
                         .Truth("done", done)
                         .Text("from_server", report.home)
                         .Text("to_server", report.here)
                         .Raw("routes", JsonArray(items))
                         .Finish()
                  << '\n';
    return ExitCode::kDone;
  }

  bool dry_run_ = false;
  bool yes_ = false;
  OperatorOptions operator_;
};

class RoutePauseCommand final : public Command {
 public:
  explicit RoutePauseCommand(bool pause) : pause_(pause) {}

  std::string_view path() const override { return pause_ ? "route pause" : "route resume"; }
  std::string_view summary() const override {
    return pause_ ? "stop publishing on a route; events wait" : "let a paused route go on";
  }
  std::vector<std::string_view> examples() const override {
    return {pause_ ? "sealane route pause main --reason \"broker maintenance\""
                   : "sealane route resume main --reason \"maintenance is over\""};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {{"name", "NAME", "the route", &name_, true}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto letters, context.OpenStoreDeadLetters());
    SEALANE_RETURN_IF_ERROR(letters->SetPaused(*name_, pause_, action));
    if (context.is_table()) {
      context.out() << fmt::format("route {} {}\n", *name_, pause_ ? "is paused" : "goes on");
      if (pause_) context.SuggestNext(fmt::format("sealane route resume {} --reason \"...\"", *name_));
    } else {
      context.out()
          << JsonDocument().Text("apiVersion", kApiVersion).Text("route", *name_).Truth("paused", pause_).Finish()
          << '\n';
    }
    return ExitCode::kDone;
  }

 private:
  const bool pause_;
  std::optional<std::string> name_;
  OperatorOptions operator_;
};

}  // namespace

std::unique_ptr<Command> MakeRouteListCommand() {
  return std::make_unique<RouteListCommand>();
}
std::unique_ptr<Command> MakeRouteAddCommand() {
  return std::make_unique<RouteAddCommand>();
}
std::unique_ptr<Command> MakeRouteRemoveCommand() {
  return std::make_unique<RouteRemoveCommand>();
}
std::unique_ptr<Command> MakeRouteRebaseCommand() {
  return std::make_unique<RouteRebaseCommand>();
}
std::unique_ptr<Command> MakeRoutePauseCommand() {
  return std::make_unique<RoutePauseCommand>(true);
}
std::unique_ptr<Command> MakeRouteResumeCommand() {
  return std::make_unique<RoutePauseCommand>(false);
}

}  // namespace sealane::cli
