#include "commands/completion.hpp"

#include <ostream>

#include <fmt/format.h>

#include "completion/completion.hpp"

namespace sealane::cli {
namespace {

class CompletionCommand final : public Command {
 public:
  std::string_view path() const override { return "completion"; }
  std::string_view summary() const override { return "write a script that completes command lines in a shell"; }
  std::vector<std::string_view> examples() const override {
    return {"source <(sealane completion bash)", "sealane completion zsh > ~/.zfunc/_sealane",
            "sealane completion fish > ~/.config/fish/completions/sealane.fish"};
  }
  std::vector<OptionSpec> Options() override {
    return {{"shell", "SHELL", "bash, zsh or fish", &shell_, true, "bash|zsh|fish"}};
  }

  Result<ExitCode> Run(CommandContext& context) override {
    const CommandTree tree = WalkCommands(AllCommands());
    if (shell_ == "bash") {
      context.out() << BashCompletion(tree);
    } else if (shell_ == "zsh") {
      context.out() << ZshCompletion(tree);
    } else if (shell_ == "fish") {
      context.out() << FishCompletion(tree);
    } else {
      return BadUsage(fmt::format("`{}` is none of bash, zsh, fish", *shell_), {}, "SHELL");
    }
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> shell_;
};

}  // namespace

std::unique_ptr<Command> MakeCompletionCommand() {
  return std::make_unique<CompletionCommand>();
}

}  // namespace sealane::cli
