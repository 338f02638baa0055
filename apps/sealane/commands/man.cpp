#include "commands/man.hpp"

#include <ostream>

#include <fmt/format.h>

#include "manual/manual.hpp"

namespace sealane::cli {
namespace {

class ManCommand final : public Command {
 public:
  std::string_view path() const override { return "man"; }
  std::string_view summary() const override { return "write a manual page to standard output"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane man | man -l -", "sealane man sealane.toml > sealane.toml.5"};
  }
  std::vector<OptionSpec> Options() override {
    return {{"page", "PAGE", "sealane (default) or sealane.toml", &page_, false, "sealane|sealane.toml"}};
  }
  bool hidden() const override { return true; }

  Result<ExitCode> Run(CommandContext& context) override {
    const std::string page = page_.value_or("sealane");
    if (page == "sealane") {
      context.out() << ProgramManual(WalkCommands(AllCommands()));
    } else if (page == "sealane.toml") {
      context.out() << ConfigurationManual();
    } else {
      return BadUsage(fmt::format("there is no page `{}`", page), "there are sealane and sealane.toml", "PAGE");
    }
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> page_;
};

}  // namespace

std::unique_ptr<Command> MakeManCommand() {
  return std::make_unique<ManCommand>();
}

}  // namespace sealane::cli
