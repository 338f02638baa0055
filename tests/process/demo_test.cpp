// Protects `sealane demo` as people run it: its verdict is green when all is well and red when a guarantee is broken,
// and however it ends, nothing of it is left.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "journal/journal_reader.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/running_demo.hpp"
#include "support/running_program.hpp"
#include "support/running_relay.hpp"
#include "support/sanitized.hpp"

namespace sealane {
namespace {

using nlohmann::json;
using testing::ChildProcess;
using testing::CommandResult;
using testing::DemoPlace;
using testing::Eventually;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Of a verdict as JSON: the names of what does not hold.
std::vector<std::string> Red(const json& verdict) {
  std::vector<std::string> names;
  for (const json& finding : verdict["findings"]) {
    if (!finding["holds"].get<bool>()) names.push_back(finding["name"]);
  }
  return names;
}

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class DemoTest : public ::testing::Test {
 protected:
  std::unique_ptr<ChildProcess> Start(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {SEALANE_TEST_BINARY, "demo"});
    return std::make_unique<ChildProcess>(arguments, place_.variables(), "/");
  }
  void ExpectNothingLeft() const {
    EXPECT_TRUE(Eventually([&] { return place_.Processes().empty(); })) << "a process is left";
    EXPECT_TRUE(place_.IsEmpty()) << "files are left in " << place_.temporary();
  }

  DemoPlace place_;
};

TEST_F(DemoTest, EndsWithAGreenVerdictOfIndependentCounting) {
  const CommandResult result = place_.Run({"--seconds", "3", "-o", "json"});
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  const json verdict = json::parse(result.out);
  EXPECT_EQ(verdict["holds"], true);
  EXPECT_THAT(Red(verdict), IsEmpty());
  EXPECT_EQ(verdict["findings"].size(), 7U);
  EXPECT_EQ(verdict["delivered"], verdict["committed"]);
  EXPECT_EQ(verdict["applied"].get<int>() + verdict["set_aside"].get<int>(), verdict["committed"].get<int>());
  EXPECT_GE(verdict["deliveries"].get<int>(), 2 * verdict["committed"].get<int>());
  EXPECT_GT(verdict["first_applied_seconds"].get<double>(), 0);
  ExpectNothingLeft();
}

TEST_F(DemoTest, JudgesWhenItsConsumersHaveReadEveryRepetition) {
  const std::string folder = place_.temporary() + "/kept";
  const CommandResult result = place_.Run({"--seconds", "2", "--dir", folder, "-o", "json"});
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  const auto reader =
      ValueOrThrow(JournalReader::Open({.path = folder + "/broker/journal.db"}, SystemClock::Instance()));
  EXPECT_EQ(ValueOrThrow(reader->Unread("payments", "orders")), 0);
  EXPECT_EQ(ValueOrThrow(reader->Unread("approvals", "payments")), 0);
}

// By the demo's own clock, from the start of its process. The best of three: a machine that does other things too
// makes a run slower and none faster.
TEST_F(DemoTest, AppliesItsFirstEventWithinASecond) {
  double best = std::numeric_limits<double>::max();
  for (int run = 0; run < 3 && best >= 1; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    const CommandResult result = place_.Run({"--seconds", "2", "--rate", "50", "-o", "json"});
    const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
    ASSERT_EQ(result.code, 0) << result.out << result.err;
    const double first = json::parse(result.out)["first_applied_seconds"].get<double>();
    EXPECT_GT(first, 0);
    EXPECT_LT(first, whole.count());
    best = std::min(best, first);
  }
  std::cout << fmt::format("the first event is applied after {:.3f} s\n", best);
  if (!testing::kSanitized) {
    EXPECT_LT(best, 1);
  }
}

TEST_F(DemoTest, WritesPlainLinesIntoAPipeAndAPictureOnRequest) {
  const std::string picture = place_.temporary() + "/demo.svg";
  const CommandResult result = place_.Run({"--seconds", "2", "--rate", "50", "--screenshot-svg", picture});
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  for (const char* part : {"after this program was started", "a poison event", "the broker goes away", "kill -9",
                           "a noisy tenant", "holds", "all of it holds"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("\x1b")));
  EXPECT_THAT(result.err, HasSubstr("next: sealane demo --keep"));
  EXPECT_THAT(ContentOf(picture), HasSubstr("all of it holds"));
  ASSERT_TRUE(std::filesystem::remove(picture));
  ExpectNothingLeft();
}

TEST_F(DemoTest, TurnsRedWhenMessagesAreMarkedBeforeTheyArePublished) {
  const CommandResult result = place_.Run({"--seconds", "3", "--plant", "mark-before-publish", "-o", "json"});
  EXPECT_EQ(result.code, 3) << result.out << result.err;
  // What one of the two routes has lost was delivered once; what both have lost, never.
  EXPECT_THAT(Red(json::parse(result.out)), ::testing::Contains(::testing::AnyOf("delivered", "repeated")));
  ExpectNothingLeft();
}

TEST_F(DemoTest, TurnsRedWhenAnEffectIsWrittenOutsideOfTheTransaction) {
  const CommandResult result = place_.Run({"--seconds", "3", "--plant", "effect-outside-transaction"});
  EXPECT_EQ(result.code, 3) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("with more than one effect"));
  EXPECT_THAT(result.out, HasSubstr("DOES NOT HOLD"));
  ExpectNothingLeft();
}

TEST_F(DemoTest, SaysThatTheFolderCannotBeUsed) {
  const std::string file = place_.temporary() + "/file";
  std::ofstream(file) << "x";
  const std::string full = place_.temporary() + "/full";
  std::filesystem::create_directory(full);
  std::ofstream(full + "/file") << "x";
  // Root may write everywhere but here.
  std::string locked = "/proc";
  if (::geteuid() != 0) {
    locked = place_.temporary() + "/locked";
    ASSERT_EQ(::mkdir(locked.c_str(), 0555), 0);
  }
  for (const std::string& folder : {locked + "/demo", file, file + "/demo", full}) {
    const CommandResult result = place_.Run({"--dir", folder});
    EXPECT_EQ(result.code, 1) << folder;
    EXPECT_THAT(result.err, HasSubstr("cannot work in " + folder)) << result.out;
    EXPECT_THAT(result.err, HasSubstr("hint: "));
  }
  const CommandResult temporary = testing::RunSealane({"demo", "-o", "json"}, {}, {{"TMPDIR", locked}});
  EXPECT_EQ(temporary.code, 1);
  EXPECT_EQ(json::parse(temporary.err)["error"]["code"], "folder_not_usable");
  EXPECT_THAT(place_.Processes(), IsEmpty());
}

TEST_F(DemoTest, SaysThatAPortIsTaken) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string taken = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  const CommandResult result = place_.Run({"--listen", taken, "-o", "json"});
  ::close(listener);
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_EQ(json::parse(result.err)["error"]["code"], "address_in_use");
  EXPECT_THAT(result.err, HasSubstr(taken));
  ExpectNothingLeft();
}

TEST_F(DemoTest, LeavesNothingAfterCtrlCAtAnyMoment) {
  struct Moment {
    const char* name;
    std::function<bool()> has_come;
  };
  const std::vector<Moment> moments = {
      {"its first file", [&] { return !place_.IsEmpty(); }},
      {"the start of its relay", [&] { return !place_.Find("relay.log").empty(); }},
      {"its work", [&] { return !place_.Find("broker/journal.db").empty(); }},
      {"the broker's absence", [&] { return !place_.Find("broker.away").empty(); }},
  };
  for (const Moment& moment : moments) {
    const auto demo = Start({"--seconds", "8"});
    ASSERT_TRUE(Eventually(moment.has_come)) << moment.name;
    demo->Signal(SIGINT);
    const CommandResult result = demo->Finish();
    EXPECT_EQ(result.code, 130) << "after " << moment.name << ": " << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr("interrupted; there is no verdict")) << "after " << moment.name;
    ExpectNothingLeft();
  }
}

TEST_F(DemoTest, SaysThatItsOutputCannotBeWritten) {
  for (const char* const where : {">/dev/full", ">&-"}) {
    const std::string line = fmt::format("exec '{}' demo --seconds 60 {}", SEALANE_TEST_BINARY, where);
    ChildProcess demo({"/bin/sh", "-c", line}, place_.variables(), "/");
    const CommandResult result = demo.Finish();
    EXPECT_EQ(result.code, 1) << where << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("cannot write to standard output")) << where;
    ExpectNothingLeft();
  }
}

TEST_F(DemoTest, ActsOnCtrlCWhileItsKafkaIsAway) {
  const auto begin = std::chrono::steady_clock::now();
  const auto demo = Start({"--broker", "kafka://127.0.0.1:1", "-o", "json"});
  ASSERT_TRUE(Eventually([&] { return !place_.IsEmpty(); }));
  demo->Signal(SIGINT);
  const CommandResult result = demo->Finish();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_EQ(json::parse(result.err)["error"]["code"], "interrupted") << "not what is wrong with the broker";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{8});
  ExpectNothingLeft();
}

TEST_F(DemoTest, LeavesAtOnceOnTheSecondCtrlCAndSaysWhatMayBeLeft) {
  const auto demo =
      Start({"--broker", "kafka://127.0.0.1:1", "--broker-away", "true", "--broker-back", "echo back", "-o", "json"});
  ASSERT_TRUE(Eventually([&] { return !place_.IsEmpty(); }));
  // Two signals that come at once are one, so they come until they have worked.
  ASSERT_TRUE(Eventually([&] {
    siginfo_t ended{};
    demo->Signal(SIGINT);
    return ::waitid(P_PID, static_cast<id_t>(demo->pid()), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == demo->pid();
  }));
  const CommandResult result = demo->Finish();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_EQ(result.out, "") << "no control characters in a pipe";
  const json error = json::parse(result.err)["error"];
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("topics sealane_demo_* may be left"));
  EXPECT_THAT(error["hint"].get<std::string>(), HasSubstr("echo back"));
}

TEST_F(DemoTest, LeavesNoProcessWhenItIsKilled) {
  const auto demo = Start({"--seconds", "60"});
  ASSERT_TRUE(Eventually([&] { return !place_.Processes().empty(); })) << "the relay is started";
  demo->Signal(SIGKILL);
  EXPECT_EQ(demo->Finish().code, 128 + SIGKILL);
  EXPECT_TRUE(Eventually([&] { return place_.Processes().empty(); })) << "the relay must die with the demo";
}

TEST_F(DemoTest, RunsOnWithItsMetricsAndADashboardWhenAskedTo) {
  const std::string folder = place_.temporary() + "/kept";
  const testing::RunningProgram demo(
      "demo", {SEALANE_TEST_BINARY, "demo", "--seconds", "2", "--rate", "50", "--keep", "--dir", folder},
      place_.variables(), place_.temporary());
  ASSERT_TRUE(demo.Says("next: sealane messages list")) << demo.said();
  EXPECT_THAT(testing::HttpGet(demo.PortAfter("metrics: http://127.0.0.1:"), "/metrics"),
              HasSubstr("sealane_published_messages_total"));
  const int dashboard = demo.PortAfter("dashboard: http://127.0.0.1:");
  EXPECT_THAT(testing::HttpGet(dashboard, "/"), HasSubstr("<!doctype html>"));
  const auto shows = [&](const std::string& target, const std::string& text) {
    return Eventually([&] { return testing::HttpGet(dashboard, target).find(text) != std::string::npos; });
  };
  EXPECT_TRUE(shows("/api/v1/overview", "\"consumer\":\"payments\""))
      << testing::HttpGet(dashboard, "/api/v1/overview");
  EXPECT_TRUE(shows("/api/v1/overview", "1 event is dead at a consumer"));
  EXPECT_TRUE(shows("/api/v1/aside", "negative_amount")) << "the poison event";
  EXPECT_EQ(demo.Stop(), 0) << demo.said();
  EXPECT_TRUE(Eventually([&] { return place_.Processes().empty(); }));
  EXPECT_TRUE(std::filesystem::exists(folder + "/shop.db")) << "what was named is kept";
}

TEST_F(DemoTest, ADashboardIsForThoseWhoStayAndForThisMachine) {
  CommandResult result = place_.Run({"--dashboard", "127.0.0.1:0"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--keep"));
  result = place_.Run({"--keep", "--dashboard", "nonsense"});
  EXPECT_EQ(result.code, 2) << result.err;
  result = place_.Run({"--keep", "--dashboard", "0.0.0.0:0"});
  EXPECT_EQ(result.code, 78) << result.err;
  ExpectNothingLeft();
}

}  // namespace
}  // namespace sealane
