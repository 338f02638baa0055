#include "commands/doctor.hpp"

#include <algorithm>
#include <ostream>
#include <set>

#include <fmt/format.h>

#include "base/text.hpp"
#include "daemon/route_setup.hpp"
#include "doctor/backlog.hpp"
#include "doctor/examination.hpp"
#include "doctor/stranded.hpp"
#include "doctor/topics.hpp"

namespace sealane::cli {
namespace {

using Level = Finding::Level;

std::string FindingJson(const Finding& finding) {
  return JsonDocument()
      .Text("level", ToString(finding.level))
      .Text("code", finding.code)
      .Text("subject", finding.subject)
      .Text("symptom", finding.symptom)
      .TextIfAny("evidence", finding.evidence)
      .TextIfAny("next", finding.next)
      .Finish();
}

std::string FindingText(const Finding& finding) {
  constexpr std::string_view kMarks[] = {"ok", "notice", "WRONG"};
  std::string text = fmt::format("{:<7} {}: {}", kMarks[static_cast<std::size_t>(finding.level)],
                                 EscapeForTerminal(finding.subject), EscapeForTerminal(finding.symptom));
  if (!finding.evidence.empty()) text += fmt::format(" ({})", EscapeForTerminal(finding.evidence));
  text += '\n';
  if (!finding.next.empty()) text += fmt::format("        next: {}\n", EscapeForTerminal(finding.next));
  return text;
}

bool IsCommand(const Finding& finding) {
  // Hints of errors name it at their end.
  return finding.next.starts_with("sealane ") || finding.next.ends_with(": sealane migrate up");
}

class DoctorCommand final : public Command {
 public:
  std::string_view path() const override { return "doctor"; }
  std::string_view summary() const override { return "examine configuration, stores and brokers (exit 0 or 3)"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane doctor", "sealane doctor --store postgres://relay@db/shop --broker kafka://b1:9092 -o json"};
  }
  std::vector<OptionSpec> Options() override {
    return {{"--broker", "URL", "kafka://host:port, journal:PATH, http(s)://..., stdout: or null:", &broker_}};
  }

  Result<ExitCode> Run(CommandContext& context) override {
    if (broker_) context.AddFlag({Key::kBrokerUrl, "--broker", *broker_});
    SEALANE_ASSIGN_OR_RETURN(const Config* config, context.config());
    std::vector<Finding> findings = ExamineConfiguration(*config);
    const auto add = [&](std::vector<Finding> more) {
      std::move(more.begin(), more.end(), std::back_inserter(findings));
    };
    std::set<std::string> readable;
    std::vector<std::string> consumers;
    for (const std::string& name : UsedStores(context, *config)) {
      std::vector<Finding> found = ExamineStore(name, *config->FindStore(name), context.clock());
      const auto is_reachable = [](const Finding& finding) { return finding.code == "reachable"; };
      if (std::any_of(found.begin(), found.end(), is_reachable)) {
        readable.insert(name);
        const std::vector<std::string> here = ConsumersOf(*config->FindStore(name));
        consumers.insert(consumers.end(), here.begin(), here.end());
      }
      // A store that is not the one that commands take by themselves.
      const bool other = !context.options().store && name != config->store_name();
      for (Finding& finding : found) {
        if (other && IsCommand(finding)) finding.next += " --store " + name;
      }
      add(std::move(found));
      if (readable.contains(name)) {
        const auto routes = RoutesOn(*config, name, context.options().store.has_value());
        const auto stranded = FindStranded(*config->FindStore(name), routes);
        add(JudgeStranded(fmt::format("store {}", name), stranded, config->file()));
      }
    }
    for (const std::string& name : UsedBrokers(*config)) {
      const Settings& broker = *config->FindBroker(name);
      if (!broker.Has(Key::kBrokerUrl)) continue;
      const BrokerDemands demands{.topics = ExpectedTopics(*config, name, readable),
                                  .consumers = consumers,
                                  .payload_max = config->Size(Key::kOutboxPayloadMax)};
      add(ExamineBroker(name, broker, demands, config->Duration(Key::kStoreConnectTimeout), context.clock()));
    }
    for (Finding& finding : findings) {
      if (IsCommand(finding)) finding.next = context.Pasteable(finding.next);
    }
    Print(context, findings);
    const bool wrong = std::any_of(findings.begin(), findings.end(),
                                   [](const Finding& finding) { return finding.level == Level::kWrong; });
    return wrong ? ExitCode::kConditionFalse : ExitCode::kDone;
  }

 private:
  static std::vector<Finding> ExamineConfiguration(const Config& config) {
    std::vector<Finding> findings;
    const auto checked = CheckRoutes(config);
    if (!checked) {
      findings.push_back(FindingFromError("configuration", checked.error()));
    } else {
      findings.push_back({.code = "configuration",
                          .subject = "configuration",
                          .symptom = config.file().empty() ? "well-formed, without a file"
                                                           : fmt::format("{} is well-formed", config.file())});
    }
    for (const std::string& warning : config.warnings()) {
      findings.push_back({.level = Level::kNotice,
                          .code = "configuration_warning",
                          .subject = "configuration",
                          .symptom = warning,
                          .evidence = config.file(),
                          .next = "sealane config print --origin"});
    }
    if (!config.FindBroker(kDefaultName)->Has(Key::kBrokerUrl) && UsedBrokers(config).contains("default")) {
      findings.push_back({.level = Level::kNotice,
                          .code = "broker_not_set",
                          .subject = "configuration",
                          .symptom = "no broker is given: nothing can be relayed",
                          .evidence = "broker.url is not set",
                          .next = "put broker.url into sealane.toml, or give --broker"});
    }
    return findings;
  }

  static std::set<std::string> UsedStores(const CommandContext& context, const Config& config) {
    if (context.options().store) return {config.store_name()};
    std::set<std::string> names;
    for (const auto& [name, route] : config.routes()) {
      for (const std::string& store : route.List(Key::kRouteStore)) names.insert(store);
    }
    return names;
  }

  static std::set<std::string> UsedBrokers(const Config& config) {
    std::set<std::string> names;
    for (const auto& [name, route] : config.routes()) names.insert(route.Text(Key::kRouteBroker));
    return names;
  }

  static void Print(CommandContext& context, const std::vector<Finding>& findings) {
    if (context.is_table()) {
      for (const Finding& finding : findings) context.out() << FindingText(finding);
      return;
    }
    std::vector<std::string> items;
    for (const Finding& finding : findings) items.push_back(FindingJson(finding));
    if (context.format() == OutputFormat::kJsonl) {
      for (const std::string& item : items) context.out() << item << '\n';
      return;
    }
    context.out() << JsonDocument().Text("apiVersion", kApiVersion).Raw("findings", JsonArray(items)).Finish()
                  << '\n';
  }

  std::optional<std::string> broker_;
};

}  // namespace

std::unique_ptr<Command> MakeDoctorCommand() {
  return std::make_unique<DoctorCommand>();
}

}  // namespace sealane::cli
