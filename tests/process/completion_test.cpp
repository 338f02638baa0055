// Protects completions and manual pages where they are used: in real shells, and in the programs that show pages.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/child_process.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using testing::ChildProcess;
using testing::CommandResult;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::RunSealane;
using ::testing::UnorderedElementsAre;

using Lines = std::vector<std::string>;

/// Where a program is; empty when it is not installed.
std::string PathOf(const std::string& program) {
  for (const char* folder : {"/usr/bin/", "/bin/", "/usr/local/bin/"}) {
    if (std::filesystem::exists(folder + program)) return folder + program;
  }
  return {};
}

// Leaves the test when a program that it needs is not there: skipped aloud, or failed where the variable CI says that
// all must run.
#define SEALANE_REQUIRE_PROGRAM(name)                                                                        \
  if (PathOf(name).empty()) {                                                                                \
    if (std::getenv("CI") != nullptr) FAIL() << "a build that counts must have " << name << ": ./dev setup"; \
    GTEST_SKIP() << "NO " << name << ": this test did not run; ./dev setup installs it";                     \
  }                                                                                                          \
  static_assert(true, "")

class Completion : public ::testing::Test {
 protected:
  /// Runs a script for this shell with the completion of this shell in the file `completion`.
  Lines Run(const std::string& shell, const std::string& script) {
    const CommandResult made = RunSealane({"completion", shell});
    EXPECT_EQ(made.code, 0) << made.err;
    std::ofstream(folder() + "/completion") << made.out;
    const CommandResult ran =
        ChildProcess({PathOf(shell), shell == "zsh" ? "-f" : "--norc", "-c", script}, Home(), folder()).Finish();
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    return LinesOf(ran.out);
  }
  std::map<std::string, std::string> Home() const { return {{"HOME", folder()}, {"LC_ALL", "C.UTF-8"}}; }
  const std::string& folder() const { return file_.folder(); }

  static Lines LinesOf(const std::string& text) {
    Lines lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  testing::SqliteFile file_;
};

class BashCompletion : public Completion {
 protected:
  /// What bash offers for a line that ends where the cursor stands.
  Lines Offered(const std::string& line) {
    return Run("bash", R"(source ./completion
complete -p sealane >/dev/null || exit 1
COMP_LINE=')" + line + R"('; COMP_POINT=${#COMP_LINE}
_sealane
if ((${#COMPREPLY[@]})); then printf '%s\n' "${COMPREPLY[@]}"; fi)");
  }
};

TEST_F(BashCompletion, OffersCommandsAndSubcommands) {
  EXPECT_THAT(Offered("sealane m"), ElementsAre("migrate", "messages"));
  EXPECT_THAT(Offered("sealane migrate "), ElementsAre("plan", "up", "status"));
  EXPECT_THAT(Offered("sealane help mig"), ElementsAre("migrate"));
  EXPECT_THAT(Offered("sealane --store shop.db mig"), ElementsAre("migrate")) << "an option's value is no command";
  EXPECT_THAT(Offered("sealane "), Not(Contains("man"))) << "hidden";
}

TEST_F(BashCompletion, OffersOptionsOfTheCommandAndOfAll) {
  EXPECT_THAT(Offered("sealane messages list --st"), UnorderedElementsAre("--status", "--store"));
  EXPECT_THAT(Offered("sealane emit --topic migrate --ke"), ElementsAre("--key"));
  EXPECT_THAT(Offered("sealane migrate up --stat"), IsEmpty());
}

TEST_F(BashCompletion, OffersValues) {
  EXPECT_THAT(Offered("sealane messages list --status P"), ElementsAre("PENDING", "PUBLISHING", "PUBLISHED"));
  EXPECT_THAT(Offered("sealane version -o "), ElementsAre("table", "json", "jsonl"));
  EXPECT_THAT(Offered("sealane version --output=j"), ElementsAre("json", "jsonl")) << "bash keeps what is before `=`";
  EXPECT_THAT(Offered("sealane completion "), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(Offered("sealane emit --topic "), IsEmpty()) << "anybody's guess";
}

TEST_F(BashCompletion, OffersFiles) {
  std::ofstream(folder() + "/shop.toml");
  std::ofstream(folder() + "/shop.db");
  EXPECT_THAT(Offered("sealane relay --config shop.t"), ElementsAre("shop.toml"));
  EXPECT_THAT(Offered("sealane relay --store sqlite:shop.d"), ElementsAre("shop.db"))
      << "bash keeps what is before `:`";
}

class ZshCompletion : public Completion {
 protected:
  /// What zsh's own functions are asked to show for these words, the last of which is being typed.
  Lines Offered(const std::string& words) {
    return Run("zsh", R"(
compdef() { }
compset() { }
_files() { print FILES }
compadd() { shift; print -l -- "$@" }
_describe() { local name; for name in "${@:#-*}"; do [[ ${(Pt)name} == array* ]] && print -l -- "${(@P)name}"; done }
source ./completion
words=( )" + words + R"( ); CURRENT=$#words
_sealane; true)");
  }
};

TEST_F(ZshCompletion, DescribesCommandsOptionsAndValues) {
  SEALANE_REQUIRE_PROGRAM("zsh");
  EXPECT_THAT(Offered("sealane migrate ''"), Contains("up:create or update the tables; safe to run again"));
  EXPECT_THAT(Offered("sealane messages list --"),
              Contains("--status:PENDING, PUBLISHING, PUBLISHED, FAILED, DEAD or DISCARDED"));
  EXPECT_THAT(Offered("sealane messages list --"), Contains("--log-format:text or json"));
  EXPECT_THAT(Offered("sealane messages list --status ''"), Contains("PUBLISHING"));
  EXPECT_THAT(Offered("sealane version --output=''"), ElementsAre("table", "json", "jsonl"));
  EXPECT_THAT(Offered("sealane relay --config ''"), ElementsAre("FILES"));
  EXPECT_THAT(Offered("sealane --store x.db migrate ''"), Contains(::testing::StartsWith("plan:")));
}

class FishCompletion : public Completion {
 protected:
  /// The words that fish offers for a line, without what they mean.
  Lines Offered(const std::string& line) {
    const CommandResult made = RunSealane({"completion", "fish"});
    std::ofstream(folder() + "/completion") << made.out;
    const CommandResult ran = ChildProcess({PathOf("fish"), "--no-config", "-c",
                                            "source ./completion; complete -C '" + line + "' | string split -f1 \\t"},
                                           Home(), folder())
                                  .Finish();
    EXPECT_EQ(ran.err, "");
    return LinesOf(ran.out);
  }
};

TEST_F(FishCompletion, OffersCommandsOptionsAndValues) {
  SEALANE_REQUIRE_PROGRAM("fish");
  EXPECT_THAT(Offered("sealane migrate "), UnorderedElementsAre("plan", "up", "status"));
  EXPECT_THAT(Offered("sealane help mig"), ElementsAre("migrate"));
  EXPECT_THAT(Offered("sealane messages list --stat"), ElementsAre("--status"));
  EXPECT_THAT(Offered("sealane messages list --status PUB"), UnorderedElementsAre("PUBLISHING", "PUBLISHED"));
  EXPECT_THAT(Offered("sealane emit --topic migrate --ke"), ElementsAre("--key"));
  EXPECT_THAT(Offered("sealane version -o j"), UnorderedElementsAre("json", "jsonl"));
  std::ofstream(folder() + "/shop.toml");
  EXPECT_THAT(Offered("sealane relay --config shop.t"), ElementsAre("shop.toml"));
}

class Manual : public Completion {
 protected:
  std::string Page(const Lines& arguments) {
    const CommandResult made = RunSealane(arguments);
    EXPECT_EQ(made.code, 0) << made.err;
    std::ofstream(folder() + "/page") << made.out;
    return folder() + "/page";
  }
};

TEST_F(Manual, PassesMandocsLint) {
  SEALANE_REQUIRE_PROGRAM("mandoc");
  for (const Lines& arguments : {Lines{"man"}, Lines{"man", "sealane.toml"}}) {
    const CommandResult linted =
        ChildProcess({PathOf("mandoc"), "-T", "lint", "-W", "warning", Page(arguments)}, Home(), folder()).Finish();
    EXPECT_THAT(linted.code, ::testing::AnyOf(0, 2)) << "nothing worse than a warning";
    for (const std::string& line : LinesOf(linted.out)) {
      EXPECT_THAT(line, ::testing::HasSubstr("missing date"))
          << "a page has none: it is the same whenever it is made";
    }
  }
}

TEST_F(Manual, IsFormattedWithoutAWarning) {
  SEALANE_REQUIRE_PROGRAM("man");
  for (const Lines& arguments : {Lines{"man"}, Lines{"man", "sealane.toml"}}) {
    const CommandResult shown =
        ChildProcess({PathOf("man"), "--warnings", "-E", "UTF-8", "-P", "cat", "-l", Page(arguments)}, Home(),
                     folder())
            .Finish();
    EXPECT_EQ(shown.code, 0);
    EXPECT_EQ(shown.err, "");
    EXPECT_THAT(shown.out, ::testing::HasSubstr("SEALANE"));
  }
}

}  // namespace
}  // namespace sealane
