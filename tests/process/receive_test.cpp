// Protects `sealane receive` as a program: set up by flags or by a file, killed between commit and answer, stopped by
// a signal, its store gone and back.

#include <csignal>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/hex.hpp"
#include "base/hmac.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/http_client.hpp"
#include "support/postgres_cluster.hpp"
#include "support/running_receiver.hpp"
#include "support/running_relay.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

std::string Body(const std::string& id) {
  return fmt::format(R"({{"id":"{}","type":"OrderPaid"}})", id);
}

class Receive : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgres") database_ = std::make_unique<ScratchDatabase>();
    const CommandResult migrated = RunSealane({"migrate", "up", "--store", url()});
    ASSERT_EQ(migrated.code, 0) << migrated.err;
  }

  std::string url() const { return database_ ? database_->url() : "sqlite:" + file_.path(); }
  const std::string& folder() const { return file_.folder(); }

  std::vector<std::string> Flags(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> flags = {
        "--store",     url(),  "--provider",         "shop",  "--topic",  "orders",
        "--signature", "hmac", "--signature-header", "X-Sig", "--secret", "env:HOOK_SECRET",
        "--id-field",  "id",   "--type-field",       "type"};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }

  std::size_t Events() const {
    const CommandResult listed = RunSealane({"messages", "list", "--store", url(), "-o", "jsonl", "--limit", "1000"});
    EXPECT_EQ(listed.code, 0) << listed.err;
    return static_cast<std::size_t>(std::count(listed.out.begin(), listed.out.end(), '\n'));
  }

  std::unique_ptr<ScratchDatabase> database_;
  SqliteFile file_;
};

TEST_P(Receive, ADeliveryOfAProviderSetUpByFlagsBecomesAnEvent) {
  const RunningReceiver receiver(folder(), Flags({"--probes", "127.0.0.1:0"}));
  EXPECT_EQ(receiver.Post(Body("e-1")).status, 200);
  EXPECT_EQ(receiver.Post(Body("e-1")).status, 200);
  EXPECT_EQ(receiver.Post(Body("e-2")).status, 200);
  EXPECT_EQ(Events(), 2U);
  const std::string metrics = HttpGet(receiver.Port("probes"), "/metrics");
  EXPECT_NE(metrics.find("sealane_receive_accepted_total{provider=\"shop\"} 2"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("sealane_receive_duplicates_total{provider=\"shop\"} 1"), std::string::npos);
  EXPECT_NE(HttpGet(receiver.Port("probes"), "/readyz").find("200 OK"), std::string::npos);
  // What probes tell is not for those who reach the hooks.
  EXPECT_NE(HttpGet(receiver.Port(), "/metrics").find("404"), std::string::npos);
  EXPECT_EQ(receiver.Stop(), 0) << receiver.said();
  EXPECT_EQ(receiver.said().find("OrderPaid"), std::string::npos);
}

TEST_P(Receive, SeveralProvidersComeFromTheFile) {
  std::ofstream(folder() + "/new") << "fresh\n";
  std::ofstream(folder() + "/old") << "stale\n";
  std::ofstream(folder() + "/sealane.toml") << fmt::format(
      "[receiver.github]\ntopic = \"code\"\nsignature = \"github\"\nsecrets = [\"file:{0}/new\", \"file:{0}/old\"]\n"
      "key_field = \"repository.full_name\"\n"
      "[receiver.shop]\ntopic = \"orders\"\npath = \"/in/orders\"\nsignature = \"hmac\"\nsignature_header = "
      "\"X-Sig\"\nsecrets = [\"env:HOOK_SECRET\"]\n",
      folder());
  const RunningReceiver receiver(folder(), {"--store", url(), "--config", folder() + "/sealane.toml"});
  EXPECT_EQ(receiver.Post(Body("e-1"), "/in/orders").status, 200);
  const std::string push = R"({"ref":"main","repository":{"full_name":"a/b"}})";
  for (const std::string secret : {"fresh", "stale"}) {
    const HttpAnswer answer = HttpPost(receiver.Port(), "/hooks/github",
                                       {{"X-Hub-Signature-256", "sha256=" + ToHex(HmacSha256(secret, push))},
                                        {"X-GitHub-Delivery", "d-" + secret},
                                        {"X-GitHub-Event", "push"},
                                        {"Content-Type", "application/json"}},
                                       push);
    EXPECT_EQ(answer.status, 200) << answer.body;
  }
  EXPECT_EQ(receiver.Stop(), 0);
  const CommandResult listed = RunSealane({"messages", "list", "--store", url(), "--topic", "code", "-o", "jsonl"});
  EXPECT_NE(listed.out.find("\"key\":\"a/b\""), std::string::npos) << listed.out;
  EXPECT_NE(listed.out.find("\"type\":\"push\""), std::string::npos) << listed.out;
  EXPECT_EQ(Events(), 3U);
}

TEST_P(Receive, KilledBetweenCommitAndAnswerARepetitionIsNoSecondEvent) {
  for (const auto& [step, left] : {std::pair{"receive.before_commit", 0U}, std::pair{"receive.after_commit", 1U}}) {
    const std::string id = fmt::format("e-{}", step);
    const std::size_t before = Events();
    {
      const RunningReceiver victim(folder(), Flags(), {{"SEALANE_TEST_CRASH_AT", step}});
      EXPECT_EQ(victim.Post(Body(id)).status, 0) << "it was answered";
      EXPECT_EQ(victim.Finish(), 128 + SIGKILL);
    }
    EXPECT_EQ(Events(), before + left) << step;
    const RunningReceiver receiver(folder(), Flags());
    const HttpAnswer again = receiver.Post(Body(id));
    EXPECT_EQ(again.status, 200);
    EXPECT_NE(again.body.find(left == 0 ? "\"duplicate\":false" : "\"duplicate\":true"), std::string::npos);
    EXPECT_EQ(Events(), before + 1) << step;
    EXPECT_EQ(receiver.Stop(), 0);
  }
}

TEST_P(Receive, ASignalLetsARequestUnderWayEnd) {
  const RunningReceiver receiver(folder(), Flags());
  const std::string body = Body("e-1");
  const std::string text =
      PostText("/hooks/shop", {{"X-Sig", ToHex(HmacSha256("s", body))}, {"Expect", "100-continue"}}, body);
  HttpConnection connection(receiver.Port());
  connection.Send(text.substr(0, text.size() - body.size()));
  ASSERT_EQ(connection.Read().status, 100);
  receiver.Signal(SIGTERM);
  EXPECT_TRUE(receiver.Says("stopping"));
  connection.Send(body);
  EXPECT_EQ(connection.Read().status, 200);
  EXPECT_EQ(receiver.Finish(), 0) << receiver.said();
  EXPECT_EQ(Events(), 1U);
}

TEST_P(Receive, SaysWhatIsWrongWithItsSetUp) {
  const auto run = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"receive", "--listen", "127.0.0.1:0", "--store", url()};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return RunSealane(arguments);
  };
  EXPECT_NE(run({}).err.find("there is nobody to receive from"), std::string::npos);
  EXPECT_NE(run({"--topic", "t"}).err.find("--provider NAME"), std::string::npos);
  const CommandResult no_signature = run({"--provider", "p", "--topic", "t"});
  EXPECT_EQ(no_signature.code, 78);
  EXPECT_NE(no_signature.err.find("receiver.p.signature"), std::string::npos) << no_signature.err;
  EXPECT_NE(run({"--provider", "p", "--topic", "t", "--signature", "github"}).err.find("receiver.p.secrets"),
            std::string::npos);
  EXPECT_NE(run({"--provider", "p", "--topic", "t", "--signature", "github", "--secret", "env:NOT_THERE"})
                .err.find("NOT_THERE"),
            std::string::npos);
  const CommandResult literal =
      run({"--provider", "p", "--topic", "t", "--signature", "github", "--secret", "hunter2"});
  EXPECT_EQ(literal.code, 2);
  EXPECT_EQ(literal.err.find("hunter2"), std::string::npos) << literal.err;
  EXPECT_NE(run({"--provider", "p", "--topic", "t", "--signature", "hmac", "--secret", "env:PATH"})
                .err.find("receiver.p.signature_header"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Stores, Receive, ::testing::Values("sqlite", "postgres"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace sealane::testing
