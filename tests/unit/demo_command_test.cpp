// Protects what people see of `sealane demo` besides a run: its help, wrong command lines, the screen and the
// picture.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "demo/frame.hpp"
#include "demo/plan.hpp"
#include "support/command_run.hpp"

namespace sealane::demo {
namespace {

using testing::CommandResult;
using testing::CommandRunner;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(DemoCommand, RefusesWhatMakesNoSenseAndSaysWhy) {
  struct Case {
    std::vector<std::string> arguments;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{"--seconds", "soon"}, "--seconds: `soon` is not a whole number from 2 to 3600"},
      {{"--seconds", "1"}, "--seconds"},
      {{"--rate", "0"}, "--rate: `0` is not a whole number from 20 to 5000"},
      {{"--seed", "-1"}, "--seed"},
      {{"--plant", "tulips"}, "--plant: `tulips` is neither"},
      {{"--broker-away", "true"}, "--broker-away and --broker-back go together"},
      {{"--broker-away", "true", "--broker-back", "true"}, "--broker-away is for a Kafka"},
      {{"--config", "x.toml"}, "reads no configuration"},
      {{"--schema", "mine"}, "reads no configuration"},
      {{"--store", "sqlite:x.db"}, "--store: `sqlite:x.db` is not postgres://"},
      {{"--broker", "journal:x.db"}, "--broker: `journal:x.db` is not kafka://"},
      {{"--listen", "nowhere"}, "--listen: "},
      {{"--log-level", "loud"}, "--log-level"},
      {{"--secnods", "3"}, "unknown option `--secnods`"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> arguments = {"demo"};
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    const CommandResult result = CommandRunner().Run(arguments);
    EXPECT_EQ(result.code, 2) << c.says;
    EXPECT_THAT(result.err, HasSubstr(c.says));
    EXPECT_EQ(result.out, "") << c.says;
  }
}

TEST(DemoCommand, HidesWhatIsNotForUsers) {
  const CommandResult help = CommandRunner().Run({"help", "demo"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("--seconds N"));
  EXPECT_THAT(help.out, Not(HasSubstr("--plant")));
  EXPECT_THAT(help.out, Not(HasSubstr("--screenshot-svg")));
  EXPECT_THAT(CommandRunner().Run({"help"}).out, Not(HasSubstr("hasty")));
  EXPECT_THAT(CommandRunner().Run({"demo", "--plantt", "x"}).err, Not(HasSubstr("--plant`?")));
}

TEST(DemoPlan, KeepsItsOrderAtEveryPace) {
  for (const std::int64_t seconds : {2, 12, 3'600}) {
    const Plan plan = PlanFor({.seconds = seconds, .rate = 20});
    EXPECT_LT(plan.poison, plan.early);
    EXPECT_LT(plan.early, plan.early_resolved);
    EXPECT_LT(plan.broker_away, plan.broker_back);
    EXPECT_LT(plan.broker_back, plan.relay_killed);
    EXPECT_LT(plan.relay_killed, plan.relay_restarted);
    EXPECT_LT(plan.relay_restarted, plan.noise);
    EXPECT_LT(plan.noise, plan.end);
    EXPECT_GT(2 * plan.noisy_orders, plan.noisy_rate) << "or else the rule would hold nothing back";
  }
}

BoardView SomeView() {
  BoardView view;
  view.now = std::chrono::milliseconds{1'500};
  view.counts = {.committed = 2'000, .deliveries = 3'000, .delivered = 1'500, .applied = 1'000, .parked = 3};
  view.pending = {0, 10, 997};
  view.broken = {"the relay is dead"};
  view.lines = {{std::chrono::milliseconds{1'234}, Tone::kBroken, "kill -9"}};
  return view;
}

std::string TextOf(const std::vector<Line>& lines, bool color) {
  std::string text;
  for (const Line& line : lines) text += ToAnsi(line, color) + '\n';
  return text;
}

TEST(DemoFrame, ShowsHowFarEventsAreAndWhatIsBroken) {
  const std::string text = TextOf(LiveFrame(SomeView(), {"SQLite and a journal", {}}, 8), false);
  for (const char* part : {"committed    2,000", "delivered    1,500", "applied      1,000", "pending        997",
                           "broken now: the relay is dead", "1.234  kill -9"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(DemoFrame, IsColouredOnlyWhenAsked) {
  EXPECT_THAT(TextOf(LiveFrame(SomeView(), {}, 8), true), HasSubstr("\x1b[33m"));
}

TEST(DemoFrame, FitsIntoANarrowTerminal) {
  for (const Line& line : LiveFrame(SomeView(), {"SQLite and a journal", {}}, 8)) {
    EXPECT_LE(WidthOf(Cut(line, 30)), 30U);
  }
  EXPECT_EQ(ToAnsi(Cut({{"━━━", Ink::kPlain}, {"abc", Ink::kPlain}}, 4), false), "━━━a");
}

TEST(DemoFrame, SaysAloudWhatDoesNotHold) {
  const Verdict verdict{{{"atomic", "b1", "c1", true, {}}, {"delivered", "b2", "c2", false, {"3 lost: x"}}}};
  const std::string text = TextOf(VerdictLines(verdict), false);
  for (const char* part : {"holds          b1", "DOES NOT HOLD  b2", "3 lost: x", "DOES NOT HOLD: 1 of 2"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(DemoPicture, IsAWholeSvgWithTextThatCannotBreakIt) {
  const std::vector<Line> lines = {{{"a < b & c", Ink::kGood}}};
  const std::string svg = ToSvg(lines, "<title>");
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(svg, HasSubstr("<title>&lt;title&gt;</title>"));
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

}  // namespace
}  // namespace sealane::demo
