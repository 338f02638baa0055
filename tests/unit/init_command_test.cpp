// Protects the file that `sealane init` writes: it is right as it is, and right with any of its settings uncommented.

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/command_run.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::cli {
namespace {

using sealane::testing::CommandResult;
using sealane::testing::CommandRunner;
using ::testing::HasSubstr;
using ::testing::Not;

class InitCommand : public ::testing::Test {
 protected:
  std::string path() const { return folder_.folder() + "/sealane.toml"; }
  CommandResult Init(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"init", "--file", path()});
    return runner_.Run(more);
  }
  CommandResult Check(const std::string& file) const { return runner_.Run({"config", "check", "--config", file}); }

  static std::string Content(const std::string& file) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  static std::vector<std::string> Lines(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  /// A setting that is commented out: `#name = ...` or `#"name" = ...`.
  static bool IsSetting(const std::string& line) { return line.size() > 1 && line[0] == '#' && line[1] != ' '; }
  std::string Written(const std::vector<std::string>& lines) const {
    const std::string file = folder_.folder() + "/changed.toml";
    std::ofstream out(file);
    for (const std::string& line : lines) out << line << '\n';
    return file;
  }

  sealane::testing::SqliteFile folder_;
  CommandRunner runner_;
};

TEST_F(InitCommand, WritesAFileThatIsRight) {
  const CommandResult made = Init();
  ASSERT_EQ(made.code, 0) << made.err;
  const CommandResult checked = Check(path());
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_EQ(checked.err, "") << "and nothing to warn of";
  EXPECT_THAT(made.out, HasSubstr("outbox.Append(db, placed)"));
  EXPECT_THAT(made.out, HasSubstr("insert into sealane_emit"));
  EXPECT_THAT(made.err, HasSubstr("next: sealane migrate up --config " + path()));
}

TEST_F(InitCommand, EverySettingIsRightWhenItAloneIsUncommented) {
  ASSERT_EQ(Init().code, 0);
  const std::vector<std::string> lines = Lines(Content(path()));
  int settings = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!IsSetting(lines[i])) continue;
    ++settings;
    std::vector<std::string> changed = lines;
    changed[i].erase(0, 1);
    const CommandResult checked = Check(Written(changed));
    EXPECT_EQ(checked.code, 0) << lines[i] << '\n' << checked.err;
  }
  EXPECT_GT(settings, 20);
}

TEST_F(InitCommand, AllSettingsAreRightTogether) {
  ASSERT_EQ(Init().code, 0);
  std::vector<std::string> lines = Lines(Content(path()));
  for (std::string& line : lines) {
    if (IsSetting(line)) line.erase(0, 1);
  }
  const CommandResult checked = Check(Written(lines));
  EXPECT_EQ(checked.code, 0) << checked.err;
}

TEST_F(InitCommand, TakesTheUrlsItIsGiven) {
  const CommandResult made =
      Init({"--store", "postgres://app@db/shop", "--broker", "kafka://b1:9092,b2:9092", "--schema", "events"});
  ASSERT_EQ(made.code, 0) << made.err;
  const CommandResult printed = runner_.Run({"config", "print", "--config", path()});
  EXPECT_THAT(printed.out, HasSubstr("store.url = \"postgres://app@db/shop\""));
  EXPECT_THAT(printed.out, HasSubstr("store.schema = \"events\""));
  EXPECT_THAT(printed.out, HasSubstr("broker.url = \"kafka://b1:9092,b2:9092\""));
  EXPECT_THAT(made.out, HasSubstr("outbox.Append({conn, \"events\"}, placed)"));
  EXPECT_THAT(made.out, HasSubstr("select events.emit("));
}

TEST_F(InitCommand, KeepsAFileThatIsThere) {
  std::ofstream(path()) << "[store]\n";
  const CommandResult refused = Init();
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  EXPECT_EQ(Content(path()), "[store]\n");
  EXPECT_EQ(Init({"--force"}).code, 0);
  EXPECT_THAT(Content(path()), HasSubstr("[broker]"));
}

TEST_F(InitCommand, RefusesWhatNoCommandCouldUse) {
  EXPECT_EQ(Init({"--store", "mysql://db"}).code, 78);
  EXPECT_EQ(Init({"--broker", "rabbit://b"}).code, 78);
  EXPECT_EQ(Init({"--schema", "no good"}).code, 78);
  EXPECT_FALSE(std::filesystem::exists(path())) << "nothing was written";
  EXPECT_EQ(runner_.Run({"init", "--file", folder_.folder() + "/missing/x.toml"}).code, 1);
}

TEST_F(InitCommand, IsForOneUserAndShowsNoPassword) {
  const CommandResult made = Init({"--store", "postgres://app:pa55@db/shop"});
  ASSERT_EQ(made.code, 0);
  EXPECT_THAT(made.out + made.err, Not(HasSubstr("pa55")));
  namespace fs = std::filesystem;
  EXPECT_EQ(fs::status(path()).permissions() & fs::perms::others_all, fs::perms::none);
}

TEST_F(InitCommand, SpeaksToPrograms) {
  const CommandResult made = Init({"-o", "json"});
  const auto json = nlohmann::json::parse(made.out);
  EXPECT_EQ(json["file"], path());
  EXPECT_EQ(json["next"], "sealane migrate up --config " + path());
  const CommandResult shown = runner_.Run({"init", "--file", "-"});
  EXPECT_EQ(shown.out, Content(path())) << "- is standard output";
}

}  // namespace
}  // namespace sealane::cli
