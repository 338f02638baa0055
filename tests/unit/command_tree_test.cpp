// Protects what completions and manual pages are made from: every command, option and value, and nothing hidden.

#include "command_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manual/roff.hpp"
#include "support/command_run.hpp"

namespace sealane::cli {
namespace {

using sealane::testing::CommandResult;
using sealane::testing::CommandRunner;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CommandTree, HasEveryCommandThatIsNotHidden) {
  const auto commands = AllCommands();
  const CommandTree tree = WalkCommands(commands);
  for (const auto& command : commands) {
    const bool listed = std::any_of(tree.entries.begin(), tree.entries.end(),
                                    [&](const CommandEntry& entry) { return entry.path == command->path(); });
    EXPECT_EQ(listed, !command->hidden()) << command->path();
  }
  EXPECT_THAT(tree.Find("").subcommands, Contains("messages"));
  EXPECT_THAT(tree.Find("messages").subcommands, Contains("list"));
  EXPECT_TRUE(tree.Find("messages").options.empty());
}

TEST(CommandTree, KnowsWhatAnOptionTakes) {
  const CommandTree tree = WalkCommands(AllCommands());
  const OptionEntry& output = *std::find_if(tree.common.begin(), tree.common.end(), [](const OptionEntry& option) {
    return option.value_name == "FORMAT" && option.names.size() == 2;
  });
  EXPECT_EQ(output.names, (std::vector<std::string>{"-o", "--output"}));
  EXPECT_EQ(output.choices, (std::vector<std::string>{"table", "json", "jsonl"}));
  EXPECT_FALSE(output.takes_file());
}

TEST(CommandTree, OffersOnlyValuesThatTheHelpNames) {
  const CommandTree tree = WalkCommands(AllCommands());
  const auto check = [](const std::vector<OptionEntry>& options) {
    for (const OptionEntry& option : options) {
      for (const std::string& choice : option.choices) EXPECT_THAT(option.help, HasSubstr(choice));
    }
  };
  check(tree.common);
  for (const CommandEntry& entry : tree.entries) check(entry.options);
}

TEST(CompletionCommand, KnowsThreeShells) {
  const CommandRunner runner;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const CommandResult made = runner.Run({"completion", shell});
    EXPECT_EQ(made.code, 0);
    EXPECT_THAT(made.out, HasSubstr("messages"));
    EXPECT_THAT(made.out, HasSubstr("PUBLISHING"));
    EXPECT_THAT(made.out, Not(HasSubstr("config document"))) << "hidden";
  }
  const CommandResult refused = runner.Run({"completion", "tcsh"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("bash, zsh, fish"));
}

TEST(ManCommand, HasEveryCommandAndEveryKey) {
  const CommandRunner runner;
  const std::string program = runner.Run({"man"}).out;
  EXPECT_THAT(program, HasSubstr(".SS \"sealane messages list\""));
  EXPECT_THAT(program, HasSubstr("\\-\\-status STATUS"));
  EXPECT_THAT(program, HasSubstr("The configuration is wrong.")) << "the exit codes";
  const std::string keys = runner.Run({"man", "sealane.toml"}).out;
  for (const KeySpec& spec : Keys()) {
    const std::string last(spec.name.substr(spec.name.rfind('.') + 1));
    EXPECT_THAT(keys, HasSubstr("." + last + " (")) << spec.name;
  }
  EXPECT_EQ(runner.Run({"man", "nothing"}).code, 2);
}

TEST(ManualPage, LetsNoTextBecomeARequest) {
  ManualPage page("x", 1, "y");
  page.Paragraph(".de dangerous\n'so /etc/passwd").Entry("--a-b", "back\\slash");
  const std::string text = std::move(page).Finish();
  EXPECT_THAT(text, HasSubstr("\\&.de dangerous\n\\&\\(aqso /etc/passwd"));
  EXPECT_THAT(text, HasSubstr("\\fB\\-\\-a\\-b\\fR\nback\\eslash"));
}

}  // namespace
}  // namespace sealane::cli
