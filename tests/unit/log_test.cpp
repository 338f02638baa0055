// Protects the log: JSON lines parse and text lines stay one line whatever bytes come in, and no secret gets out.

#include "base/log.hpp"

#include <limits>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>
#include <unistd.h>

#include "base/json_text.hpp"
#include "base/text.hpp"

namespace sealane {
namespace {

using nlohmann::json;

constexpr Timestamp kNoon{std::chrono::seconds{1'700'000'000}};
const std::string kHostile = std::string("a\0b", 3) + "\x1b[31m\r\n\"\\\xff\xfe\xe2\x80\xae tail";

/// A logger whose lines are collected.
class LogTest : public ::testing::Test {
 protected:
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

  ManualClock clock_{kNoon};

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;

 protected:
  Logger logger_{clock_, [this](std::string_view line) {
                   const std::lock_guard lock(mutex_);
                   lines_.emplace_back(line);
                 }};
};

TEST_F(LogTest, WritesTextForPeople) {
  logger_.Log(LogLevel::kInfo, "lane taken", {{"lane", 7}, {"owner", "relay a"}, {"ratio", 0.5}, {"first", true}});
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_EQ(lines()[0],
            "2023-11-14T22:13:20.000000Z info    lane taken lane=7 owner=\"relay a\" ratio=0.5 first=true\n");
}

TEST_F(LogTest, WritesJsonForMachines) {
  logger_.SetFormat(LogFormat::kJson);
  logger_.Log(
      LogLevel::kError, "broken",
      {{"text", kHostile}, {"n", std::uint64_t{18446744073709551615U}}, {"x", -1}, {"y", 1.5}, {"ok", false}});
  const json line = json::parse(lines().at(0));
  EXPECT_EQ(line["ts"], "2023-11-14T22:13:20.000000Z");
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["message"], "broken");
  EXPECT_EQ(line["n"], 18446744073709551615U);
  EXPECT_EQ(line["x"], -1);
  EXPECT_EQ(line["y"], 1.5);
  EXPECT_EQ(line["ok"], false);
  EXPECT_EQ(line["text"].get<std::string>().substr(0, 4), std::string("a\0b\x1b", 4));
}

TEST_F(LogTest, KeepsFieldsApartFromTheLinesOwnNames) {
  logger_.SetFormat(LogFormat::kJson);
  logger_.Log(LogLevel::kInfo, "real", {{"message", "forged"}, {"level", "forged"}, {"ts", "forged"}});
  const json line = json::parse(lines().at(0));
  EXPECT_EQ(line["message"], "real");
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["message_"], "forged");
}

TEST_F(LogTest, WritesNumbersThatJsonLacksAsText) {
  logger_.SetFormat(LogFormat::kJson);
  logger_.Log(LogLevel::kInfo, "odd",
              {{"nan", std::numeric_limits<double>::quiet_NaN()}, {"inf", std::numeric_limits<double>::infinity()}});
  const json line = json::parse(lines().at(0));
  EXPECT_EQ(line["nan"], "nan");
  EXPECT_EQ(line["inf"], "inf");
}

TEST_F(LogTest, NeverShowsASecret) {
  const Secret secret("canary-4711");
  logger_.Log(LogLevel::kInfo, "login", {{"password", secret}});
  logger_.SetFormat(LogFormat::kJson);
  logger_.Log(LogLevel::kInfo, "login", {{"password", secret}});
  EXPECT_NE(lines().at(0).find("password=***"), std::string::npos);
  EXPECT_EQ(json::parse(lines().at(1))["password"], "***");
  for (const std::string& line : lines()) EXPECT_EQ(line.find("canary"), std::string::npos);
}

TEST_F(LogTest, DropsWhatIsBelowItsLevel) {
  logger_.Log(LogLevel::kDebug, "no");
  logger_.SetLevel(LogLevel::kWarning);
  logger_.Log(LogLevel::kInfo, "no");
  logger_.Log(LogLevel::kWarning, "yes");
  logger_.SetLevel(LogLevel::kDebug);
  logger_.Log(LogLevel::kDebug, "yes");
  EXPECT_EQ(lines().size(), 2U);
}

TEST_F(LogTest, TakesTheTimeFromItsClock) {
  clock_.Advance(std::chrono::milliseconds{1500});
  logger_.Log(LogLevel::kInfo, "later");
  EXPECT_TRUE(lines().at(0).starts_with("2023-11-14T22:13:21.500000Z"));
}

TEST_F(LogTest, CutsLongLinesAndSaysSo) {
  const std::string huge(1'000'000, 'x');
  logger_.Log(LogLevel::kInfo, huge, {{"a", huge}});
  logger_.Log(LogLevel::kInfo, "short", {{"a", huge}, {"b", "kept out"}});
  logger_.SetFormat(LogFormat::kJson);
  logger_.Log(LogLevel::kInfo, huge, {{"a", huge}});
  logger_.Log(LogLevel::kInfo, "short", {{"a", huge}, {"b", "kept out"}});
  for (const std::string& line : lines()) EXPECT_LE(line.size(), Logger::kLineMax);
  EXPECT_TRUE(lines()[0].ends_with(" (cut)\n"));
  EXPECT_TRUE(lines()[1].ends_with(" (cut)\n"));
  EXPECT_EQ(json::parse(lines()[2])["cut"], true);
  EXPECT_EQ(json::parse(lines()[3])["cut"], true);
  EXPECT_EQ(json::parse(lines()[3])["message"], "short");
}

TEST_F(LogTest, RemembersTheLastLines) {
  for (int i = 0; i < 100; ++i) logger_.Log(LogLevel::kInfo, "line", {{"i", i}});
  const std::vector<std::string> recent = logger_.Recent();
  ASSERT_EQ(recent.size(), Logger::kRecentMax);
  EXPECT_TRUE(recent.front().ends_with("i=36\n"));
  EXPECT_TRUE(recent.back().ends_with("i=99\n"));
}

TEST_F(LogTest, MixesNothingWhenManyThreadsWrite) {
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([this, t] {
        for (int i = 0; i < 200; ++i) {
          logger_.SetFormat(LogFormat::kJson);
          logger_.Log(LogLevel::kInfo, "line", {{"t", t}, {"i", i}});
        }
      });
    }
  }
  ASSERT_EQ(lines().size(), 800U);
  for (const std::string& line : lines()) EXPECT_TRUE(json::accept(line)) << line;
}

TEST(LogLine, IsOneLineOfValidTextWhateverComesIn) {
  EXPECT_TRUE(
      rc::check("text lines", [](const std::string& message, const std::string& name, const std::string& value) {
        const std::string line = FormatTextLine(kNoon, LogLevel::kInfo, message, {{name, value}});
        RC_ASSERT(line.find('\n') == line.size() - 1);
        RC_ASSERT(line.find('\r') == std::string::npos);
        RC_ASSERT(line.find('\x1b') == std::string::npos);
        RC_ASSERT(IsUtf8(line));
        RC_ASSERT(line.size() <= Logger::kLineMax);
      }));
}

TEST(LogLine, IsValidJsonWhateverComesIn) {
  EXPECT_TRUE(
      rc::check("json lines", [](const std::string& message, const std::string& name, const std::string& value) {
        const std::string line = FormatJsonLine(kNoon, LogLevel::kInfo, message, {{name, value}});
        RC_ASSERT(line.find('\n') == line.size() - 1);
        RC_ASSERT(line.size() <= Logger::kLineMax);
        const json parsed = json::parse(line);
        if (IsUtf8(message)) RC_ASSERT(parsed["message"].get<std::string>() == message);
      }));
}

TEST(LogLine, StaysValidAtEveryLengthAroundTheLimit) {
  for (std::size_t size = 3900; size < 4200; ++size) {
    // A multibyte tail, so that every cut could fall into a sequence.
    const std::string text = std::string(size - 3900, 'x') + [] {
      std::string tail;
      for (int i = 0; i < 1000; ++i) tail += "\xf0\x9f\x9a\x80";
      return tail;
    }();
    const std::string in_json = FormatJsonLine(kNoon, LogLevel::kInfo, text, {{"quote", "\"\"\"\""}});
    ASSERT_TRUE(json::accept(in_json)) << size;
    ASSERT_LE(in_json.size(), Logger::kLineMax);
    const std::string in_text = FormatTextLine(kNoon, LogLevel::kInfo, text, {});
    ASSERT_TRUE(IsUtf8(in_text)) << size;
    ASSERT_LE(in_text.size(), Logger::kLineMax);
  }
}

TEST(JsonText, CutsToItsBudgetAndStaysWhole) {
  EXPECT_TRUE(rc::check("bounded strings", [](const std::string& text, std::uint8_t room) {
    const std::size_t budget = 2U + room;
    std::string out = "[";
    const bool whole = AppendJsonString(out, text, budget);
    RC_ASSERT(out.size() <= 1 + budget);
    RC_ASSERT(json::accept(out + "]"));
    RC_ASSERT(whole == (JsonString(text).size() <= budget));
  }));
}

TEST(JsonText, KeepsValidTextAndReplacesTheRest) {
  EXPECT_EQ(JsonString("a\"b\\c\n\x7f"), R"("a\"b\\c\n\u007f")");
  EXPECT_EQ(JsonString("\xe2\x80\xa8"), R"("\u2028")");
  EXPECT_EQ(JsonString("x\xffy"), "\"x\xef\xbf\xbdy\"");
  EXPECT_EQ(json::parse(JsonString(kHostile)).get<std::string>().substr(0, 3), std::string("a\0b", 3));
}

TEST(Logger, WritesEachLineInOneWriteToStandardError) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  Logger logger(SystemClock::Instance());
  logger.Log(LogLevel::kInfo, "through the pipe");
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  char block[Logger::kLineMax];
  const ssize_t count = ::read(ends[0], block, sizeof block);
  ::close(ends[0]);
  ::close(ends[1]);
  ASSERT_GT(count, 0);
  EXPECT_TRUE(std::string_view(block, static_cast<std::size_t>(count)).ends_with("through the pipe\n"));
}

TEST(LogLevel, IsParsedByName) {
  EXPECT_EQ(ParseLogLevel("warning"), LogLevel::kWarning);
  EXPECT_EQ(ParseLogLevel("loud"), std::nullopt);
  EXPECT_EQ(ParseLogFormat("json"), LogFormat::kJson);
  EXPECT_EQ(ToString(LogLevel::kDebug), "debug");
}

}  // namespace
}  // namespace sealane
