#include "commands/config.hpp"

#include <ostream>

#include <fmt/format.h>

#include "base/text.hpp"
#include "daemon/route_setup.hpp"
#include "daemon/target_setup.hpp"

namespace sealane::cli {
namespace {

std::string SettingsJson(const Config& config) {
  std::vector<std::string> items;
  for (const ShownSetting& setting : ShownSettings(config)) {
    JsonDocument item;
    item.Text("key", setting.key);
    if (setting.value.empty()) {
      item.Null("value");
    } else {
      item.Text("value", setting.value);
    }
    items.push_back(item.Text("origin", setting.origin).Finish());
  }
  return JsonArray(items);
}

class ConfigPrintCommand final : public Command {
 public:
  std::string_view path() const override { return "config print"; }
  std::string_view summary() const override { return "show the settings in force, secrets hidden"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane config print --origin", "sealane config print -o json"};
  }
  std::vector<OptionSpec> Options() override {
    return {{"--origin", "", "say where each value came from", &origin_}};
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const Config* config, context.config());
    if (context.is_table()) {
      context.out() << PrintConfig(*config, origin_);
    } else {
      JsonDocument json;
      json.Text("apiVersion", kApiVersion).TextIfAny("file", config->file());
      context.out() << json.Raw("settings", SettingsJson(*config)).Finish() << '\n';
    }
    return ExitCode::kDone;
  }

 private:
  bool origin_ = false;
};

class ConfigCheckCommand final : public Command {
 public:
  std::string_view path() const override { return "config check"; }
  std::string_view summary() const override { return "say whether the configuration is well-formed (exit 0 or 78)"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane config check", "sealane config check --config deploy/sealane.toml"};
  }
  std::vector<OptionSpec> Options() override { return {}; }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const Config* config, context.config());
    SEALANE_RETURN_IF_ERROR(CheckRoutes(*config));
    SEALANE_RETURN_IF_ERROR(CheckTargets(*config));
    if (context.is_table()) {
      context.out() << (config->file().empty() ? "ok: no file, all values are from flags, environment and defaults"
                                               : fmt::format("ok: {}", EscapeForTerminal(config->file())))
                    << '\n';
      return ExitCode::kDone;
    }
    JsonDocument json;
    json.Text("apiVersion", kApiVersion).TextIfAny("file", config->file());
    context.out() << json.Truth("ok", true).Finish() << '\n';
    return ExitCode::kDone;
  }
};

class ConfigDocumentCommand final : public Command {
 public:
  std::string_view path() const override { return "config document"; }
  std::string_view summary() const override { return "write docs/configuration.md to standard output"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane config document > docs/configuration.md"};
  }
  std::vector<OptionSpec> Options() override { return {}; }
  bool hidden() const override { return true; }
  Result<ExitCode> Run(CommandContext& context) override {
    context.out() << ConfigurationDocument();
    return ExitCode::kDone;
  }
};

}  // namespace

std::unique_ptr<Command> MakeConfigPrintCommand() {
  return std::make_unique<ConfigPrintCommand>();
}
std::unique_ptr<Command> MakeConfigCheckCommand() {
  return std::make_unique<ConfigCheckCommand>();
}
std::unique_ptr<Command> MakeConfigDocumentCommand() {
  return std::make_unique<ConfigDocumentCommand>();
}

}  // namespace sealane::cli
