// Protects a charge from a dispatcher whose machine has the wrong time: what is over is forgotten by the store's
// clock, so a key that was used stays used. The wrong clock is that of faketime (Debian package `faketime`).

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "support/child_process.hpp"
#include "support/http_receiver.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

using nlohmann::json;
using testing::ChildProcess;
using testing::CommandResult;
using testing::HttpReceiver;
using testing::RunSealane;
using testing::ScratchDatabase;
using Words = std::vector<std::string>;

constexpr const char* kFaketime = "/usr/bin/faketime";

class TasksClockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access(kFaketime, X_OK) != 0) GTEST_SKIP() << "there is no " << kFaketime << ": ./dev setup installs it";
    const CommandResult up = RunSealane({"migrate", "up", "--store", database_.url()});
    ASSERT_EQ(up.code, 0) << up.err;
  }

  /// Whether the store has this charge already.
  bool Enqueue(const std::string& key, const std::string& target = "billing") const {
    const CommandResult result =
        RunSealane({"tasks", "enqueue", "--target", target, "--operation", "/charges", "--key", key, "--request",
                    R"({"cents":5})", "-o", "json", "--store", database_.url()});
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out)["already_there"];
  }
  /// Carries out everything for the target.
  void Drain(const std::string& target, bool ahead = false, const Words& more = {}) const {
    Words command;
    // Waiting goes on by the real clock; the time of day is a hundred days ahead.
    if (ahead) command = {kFaketime, "-m", "--exclude-monotonic", "-f", "+100d"};
    const Words run = {SEALANE_TEST_BINARY,
                       "tasks",
                       "run",
                       "--target",
                       target + "=" + receiver_.url("/v1"),
                       "--until",
                       "drained",
                       "--store",
                       database_.url(),
                       "--timeout",
                       "60s"};
    command.insert(command.end(), run.begin(), run.end());
    command.insert(command.end(), more.begin(), more.end());
    const CommandResult result = ChildProcess(command, {}, "/").Finish();
    EXPECT_EQ(result.code, 0) << result.err;
  }
  std::size_t Sent() const { return receiver_.requests().size(); }

  HttpReceiver receiver_;
  ScratchDatabase database_;
};

TEST_F(TasksClockTest, AClockThatIsAheadForgetsNothing) {
  EXPECT_FALSE(Enqueue("charge-1"));
  Drain("billing");
  ASSERT_EQ(Sent(), 1U);
  Drain("billing", true);
  EXPECT_TRUE(Enqueue("charge-1")) << "the charge was forgotten";
  Drain("billing");
  EXPECT_EQ(Sent(), 1U) << "the same charge was sent again";
}

TEST_F(TasksClockTest, ADispatcherForgetsOnlyWhatItServes) {
  for (const char* const target : {"billing", "mail"}) {
    EXPECT_FALSE(Enqueue("one", target));
    Drain(target);
  }
  ASSERT_EQ(Sent(), 2U);
  Drain("mail", true);
  EXPECT_TRUE(Enqueue("one", "billing")) << "another target's charge was forgotten";
  Drain("mail", false, {"--retention", "1ms"});
  EXPECT_FALSE(Enqueue("one", "mail")) << "its own are forgotten when it says so";
  EXPECT_TRUE(Enqueue("one", "billing")) << "another target's charge was forgotten";
}

}  // namespace
}  // namespace sealane
