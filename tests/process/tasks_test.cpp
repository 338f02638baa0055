// Protects tasks from the command line to the endpoint and back: whatever the endpoint, the network or the dispatcher
// does, a key takes effect once, every attempt is on record, and how it ended is told by an event.

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <mutex>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/http_receiver.hpp"
#include "support/journal_file.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/private_pooler.hpp"
#include "support/running_relay.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using nlohmann::json;
using testing::ChildProcess;
using testing::CommandResult;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::HttpReceiver;
using testing::ReadJournal;
using testing::RunSealane;
using testing::ScratchDatabase;
using testing::SqliteFile;
using Answer = HttpReceiver::Answer;
using Request = HttpReceiver::Request;
using Words = std::vector<std::string>;

/// An endpoint that keeps idempotency keys: the first request of a key that it accepts takes effect, the others get
/// the same answer. What a key begins with says how it behaves.
class Endpoint {
 public:
  Endpoint() {
    receiver_.SetHandler([this](const Request& request) { return Serve(request); });
  }
  ~Endpoint() {
    Release();
    receiver_.Stop();
  }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  HttpReceiver& receiver() { return receiver_; }
  std::map<std::string, int> effects() const {
    const std::lock_guard lock(mutex_);
    return effects_;
  }
  int RequestsOf(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = seen_.find(key);
    return found == seen_.end() ? 0 : found->second;
  }
  /// Ends the work on keys that begin with `held`.
  void Release() {
    if (!released_.exchange(true)) go_.count_down();
  }

 private:
  Answer Serve(const Request& request) {
    const std::string key = request.Header("idempotency-key");
    int nth = 0;
    bool first_effect = false;
    {
      const std::lock_guard lock(mutex_);
      nth = ++seen_[key];
      if (key.starts_with("bad")) return {.status = 400, .body = "{\"reason\":\"no such account\"}"};
      if (key.starts_with("busy") && nth <= 2) return {.status = 503};
      first_effect = done_.insert(key).second;
      if (first_effect) ++effects_[key];
    }
    if (key.starts_with("lost") && first_effect) return {.hang_up = true};
    if ((key.starts_with("late") || key.starts_with("held")) && first_effect) go_.wait();
    return {.body = fmt::format("{{\"charged\":\"{}\"}}", key)};
  }

  mutable std::mutex mutex_;
  std::map<std::string, int> seen_;
  std::map<std::string, int> effects_;
  std::set<std::string> done_;
  std::latch go_{1};
  std::atomic<bool> released_{false};
  HttpReceiver receiver_;
};

class TasksTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() != "sqlite") database_ = std::make_unique<ScratchDatabase>();
    if (GetParam() == "pgbouncer") {
      SEALANE_REQUIRE_POOLER();
      pooler_ = std::make_unique<testing::PrivatePooler>();
    }
    const CommandResult up = Sealane({"migrate", "up"});
    ASSERT_EQ(up.code, 0) << up.err;
    Configure(kImpatient);
  }

  const std::string& folder() const { return file_.folder(); }
  std::string Store() const {
    if (pooler_) return pooler_->UrlOf(*database_);
    return database_ ? database_->url() : "sqlite:" + file_.path();
  }
  /// The target `billing` with these keys, and perhaps another one.
  void Configure(const std::string& keys, const std::string& hasty_keys = {}) {
    const std::string url = "url = \"" + endpoint_.receiver().url("/v1") + "\"\n";
    std::ofstream file(folder() + "/sealane.toml", std::ios::trunc);
    file << "[target.billing]\n" << url << keys;
    if (!hasty_keys.empty()) file << "[target.hasty]\n" << url << hasty_keys;
  }
  /// Tries again soon. An attempt may take long, so that a machine that stands still for a moment changes nothing.
  static constexpr const char* kImpatient =
      "timeout = \"30s\"\nretry.first = \"100ms\"\nretry.max = \"300ms\"\nretry.attempts = 0\n";
  /// The same where an attempt or its lease has to end by itself.
  static constexpr const char* kHasty =
      "timeout = \"5s\"\nretry.first = \"100ms\"\nretry.max = \"300ms\"\nretry.attempts = 0\n";
  CommandResult Sealane(Words words, const std::string& input = {}) const {
    words.insert(words.end(), {"--store", Store()});
    return RunSealane(words, input, {{"USER", "ann"}}, folder());
  }
  json Json(Words words) const {
    words.insert(words.end(), {"-o", "json"});
    const CommandResult result = Sealane(std::move(words));
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out);
  }
  std::string Enqueue(const std::string& key, const Words& more = {}, const std::string& target = "billing") const {
    Words words = {"tasks",    "enqueue", "--target", target,      "--operation",
                   "/charges", "--key",   key,        "--request", "{\"cents\":5}"};
    words.insert(words.end(), more.begin(), more.end());
    return Json(words)["task_id"];
  }
  json Show(const std::string& id) const { return Json({"tasks", "show", id})["task"]; }
  std::string StateOf(const std::string& id) const { return Show(id)["state"]; }
  bool Ends(const std::string& id, const std::string& state) const {
    return Eventually([&] { return StateOf(id) == state; });
  }

  /// `tasks run` beside the test, its log in a file.
  struct Dispatcher {
    std::string log_path;
    std::unique_ptr<ChildProcess> process;
    std::string log() const {
      std::ifstream file(log_path);
      return {std::istreambuf_iterator<char>(file), {}};
    }
    bool Says(const std::string& text) const {
      return Eventually([&] { return log().find(text) != std::string::npos; });
    }
    json Stop() const {
      process->Signal(SIGTERM);
      const CommandResult end = process->Finish();
      EXPECT_EQ(end.code, 0) << log();
      return json::parse(end.out);
    }
  };
  Dispatcher Start(const std::string& name = "one", const Words& more = {}) const {
    Dispatcher dispatcher{.log_path = folder() + "/" + name + ".log", .process = nullptr};
    Words command = {"/bin/sh",
                     "-c",
                     "exec \"$@\" 2>\"$LOG\"",
                     "sh",
                     SEALANE_TEST_BINARY,
                     "tasks",
                     "run",
                     "--lease-margin",
                     "1s",
                     "--store",
                     Store(),
                     "-o",
                     "json"};
    command.insert(command.end(), more.begin(), more.end());
    dispatcher.process = std::make_unique<ChildProcess>(
        command, std::map<std::string, std::string>{{"LOG", dispatcher.log_path}}, folder());
    return dispatcher;
  }

  Endpoint endpoint_;
  SqliteFile file_;
  std::unique_ptr<ScratchDatabase> database_;
  std::unique_ptr<testing::PrivatePooler> pooler_;
};

INSTANTIATE_TEST_SUITE_P(Stores, TasksTest, ::testing::Values("sqlite", "postgres", "pgbouncer"),
                         [](const auto& param) { return param.param; });

TEST_P(TasksTest, AKeyTakesEffectOnceHoweverTheEndpointBehaves) {
  Configure(kImpatient, kHasty);
  std::map<std::string, std::string> ids;
  for (const std::string kind : {"good", "busy", "lost", "late", "bad"}) {
    for (int i = 0; i < 2; ++i) {
      const std::string key = fmt::format("{}-{}", kind, i);
      ids[key] = Enqueue(key, {"--result-topic", "billing.results"}, kind == "late" ? "hasty" : "billing");
    }
  }
  const Dispatcher dispatcher = Start();
  for (const auto& [key, id] : ids) {
    EXPECT_TRUE(Ends(id, key.starts_with("bad") ? "DEAD" : "SUCCEEDED")) << key << "\n" << dispatcher.log();
  }
  const json stats = dispatcher.Stop();
  EXPECT_EQ(stats["succeeded"], 8);
  EXPECT_EQ(stats["dead"], 2);
  EXPECT_EQ(stats["targets"]["billing"]["succeeded"], 6);
  EXPECT_EQ(stats["targets"]["hasty"]["succeeded"], 2);

  const std::map<std::string, int> once = {{"good-0", 1}, {"good-1", 1}, {"busy-0", 1}, {"busy-1", 1},
                                           {"lost-0", 1}, {"lost-1", 1}, {"late-0", 1}, {"late-1", 1}};
  EXPECT_EQ(endpoint_.effects(), once);

  const json busy = Show(ids["busy-0"]);
  ASSERT_EQ(busy["history"].size(), 3U);
  EXPECT_EQ(busy["history"][0]["verdict"], "retry");
  EXPECT_EQ(busy["history"][0]["status"], 503);
  EXPECT_EQ(busy["history"][2]["verdict"], "succeeded");
  EXPECT_EQ(busy["history"][2]["response"], (json{{"charged", "busy-0"}}));
  const json late = Show(ids["late-0"]);
  ASSERT_EQ(late["history"].size(), 2U);
  EXPECT_EQ(late["history"][0]["verdict"], "unknown");
  EXPECT_EQ(late["history"][0]["code"], "answer_missing");
  const json bad = Show(ids["bad-0"]);
  ASSERT_EQ(bad["history"].size(), 1U) << "what was refused is not sent again";
  EXPECT_EQ(bad["error_code"], "http_400");
  EXPECT_EQ(bad["history"][0]["response"]["reason"], "no such account");

  const std::string journal = folder() + "/journal.db";
  const CommandResult relayed = Sealane(
      {"relay", "--broker", "journal:" + journal, "--until", "drained", "--timeout", "60s", "--listen", "off"});
  ASSERT_EQ(relayed.code, 0) << relayed.err;
  std::set<std::string> told;
  for (const auto& [key, values] : ReadJournal(journal)) {
    EXPECT_EQ(values.size(), 1U) << key;
    told.insert(key);
  }
  std::set<std::string> keys;
  for (const auto& [key, id] : ids) keys.insert(key);
  EXPECT_EQ(told, keys);
}

// With SEALANE_TEST_LONG the endpoint is away for a minute.
TEST_P(TasksTest, WaitsForAnEndpointThatIsDown) {
  endpoint_.receiver().Stop();
  const std::string id = Enqueue("order-1");
  const Dispatcher dispatcher = Start();
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + std::chrono::seconds{std::getenv("SEALANE_TEST_LONG") != nullptr ? 60 : 2};
  EXPECT_TRUE(
      Eventually([&] { return Show(id)["attempts"] >= 6 && steady_clock::now() >= end; }, std::chrono::seconds{180}));
  EXPECT_EQ(Show(id)["error_code"], "receiver_unreachable");
  endpoint_.receiver().Start();
  EXPECT_TRUE(Ends(id, "SUCCEEDED")) << dispatcher.log();
  EXPECT_EQ(endpoint_.effects(), (std::map<std::string, int>{{"order-1", 1}}));
  EXPECT_EQ(endpoint_.RequestsOf("order-1"), 1);
}

TEST_P(TasksTest, IsDeadWhenItsAttemptsAreUsedUpAndGoesOnWhenAPersonSaysSo) {
  Configure("retry.first = \"100ms\"\nretry.max = \"100ms\"\nretry.attempts = 2\nbreaker.failures = 0\n");
  const std::string id = Enqueue("busy-1");
  const Dispatcher dispatcher = Start();
  EXPECT_TRUE(Ends(id, "DEAD")) << dispatcher.log();
  EXPECT_EQ(Show(id)["history"].size(), 2U);
  EXPECT_TRUE(endpoint_.effects().empty());

  EXPECT_EQ(Json({"tasks", "retry", id, "--reason", "it has recovered"})["changed"], 1);
  EXPECT_TRUE(Ends(id, "SUCCEEDED"));
  EXPECT_EQ(Show(id)["history"].size(), 3U);
  EXPECT_EQ(endpoint_.effects(), (std::map<std::string, int>{{"busy-1", 1}}));
}

TEST_P(TasksTest, ATaskOutlivesAnOutageThatOperatorsSee) {
  Configure("retry.first = \"100ms\"\nretry.max = \"100ms\"\nretry.attempts = 2\nbreaker.max = \"2s\"\n");
  endpoint_.receiver().Stop();
  const std::string id = Enqueue("order-1");
  const Dispatcher dispatcher = Start("one", {"--listen", "127.0.0.1:0"});
  ASSERT_TRUE(dispatcher.Says("target is down, its tasks wait")) << dispatcher.log();
  json target;
  EXPECT_TRUE(Eventually([&] {
    target = Json({"tasks", "targets"})["targets"][0];
    return target["state"] == "open";
  })) << target;
  EXPECT_EQ(target["target"], "billing");
  EXPECT_EQ(target["down"]["error_code"], "receiver_unreachable");
  EXPECT_EQ(target["down"]["dispatchers"], 1);
  EXPECT_EQ(target["paused"], nullptr);
  EXPECT_THAT(Sealane({"tasks", "targets"}).out, HasSubstr("receiver_unreachable"));
  EXPECT_THAT(Sealane({"doctor"}).out, HasSubstr("target billing is down"));
  EXPECT_TRUE(Eventually([&] { return Show(id)["attempts"] >= 4; })) << "more than its policy allows";
  EXPECT_EQ(StateOf(id), "FAILED");
  endpoint_.receiver().Start();
  EXPECT_TRUE(Ends(id, "SUCCEEDED")) << dispatcher.log();
  ASSERT_TRUE(dispatcher.Says("target is back")) << dispatcher.log();
  EXPECT_TRUE(Eventually([&] { return Json({"tasks", "targets"})["targets"][0]["state"] == "closed"; }));
  const std::string log = dispatcher.log();
  const std::string line = "target is down";
  EXPECT_EQ(log.find(line), log.rfind(line)) << "it is said once";
}

TEST_P(TasksTest, ATargetThatNeverAnswersStopsNoOther) {
  HttpReceiver hanging;
  std::latch go{1};
  hanging.SetHandler([&](const Request&) {
    go.wait();
    return Answer{};
  });
  {
    std::ofstream file(folder() + "/sealane.toml", std::ios::trunc);
    file << "[target.hanging]\nurl = \"" << hanging.url("/") << "\"\ntimeout = \"60s\"\n";
    for (int i = 0; i < 9; ++i) {
      file << "[target.healthy-" << i << "]\nurl = \"" << endpoint_.receiver().url("/v1") << "\"\n";
    }
  }
  for (int i = 0; i < 20; ++i) Enqueue(fmt::format("hang-{}", i), {}, "hanging");
  const Dispatcher dispatcher = Start("one", {"--workers", "4"});
  // It has all workers before the others have their first task.
  hanging.AwaitRequests(4);
  std::vector<std::string> ids;
  for (int i = 0; i < 27; ++i) {
    ids.push_back(Enqueue(fmt::format("good-{}", i), {}, fmt::format("healthy-{}", i % 9)));
  }
  for (const std::string& id : ids) EXPECT_TRUE(Ends(id, "SUCCEEDED")) << dispatcher.log();
  EXPECT_EQ(hanging.requests().size(), 4U) << "the others did not wait for its timeout";
  go.count_down();
  hanging.Stop();
}

TEST_P(TasksTest, APausedTargetWaitsUntilItIsResumed) {
  const json paused = Json({"tasks", "pause", "billing", "--reason", "maintenance"});
  EXPECT_EQ(paused["changed"], true);
  EXPECT_EQ(paused["target"]["state"], "paused");
  EXPECT_EQ(paused["target"]["paused"]["actor"], "ann");
  EXPECT_EQ(paused["target"]["paused"]["reason"], "maintenance");
  const std::string id = Enqueue("order-1");
  const Dispatcher dispatcher = Start();
  ASSERT_TRUE(dispatcher.Says("an operator has paused a target")) << dispatcher.log();
  EXPECT_EQ(StateOf(id), "PENDING");
  EXPECT_TRUE(endpoint_.receiver().requests().empty());
  EXPECT_EQ(Json({"tasks", "targets"})["targets"][0]["due"], 1);
  EXPECT_THAT(Sealane({"doctor"}).out, HasSubstr("target billing is paused"));

  EXPECT_EQ(Json({"tasks", "pause", "billing", "--reason", "again"})["changed"], false);
  EXPECT_THAT(Sealane({"tasks", "pause", "billing", "--reason", "again"}).out,
              HasSubstr("by ann: maintenance; nothing was changed"));
  EXPECT_EQ(Json({"tasks", "resume", "billing", "--reason", "it is over"})["changed"], true);
  EXPECT_TRUE(Ends(id, "SUCCEEDED")) << dispatcher.log();
  EXPECT_THAT(Sealane({"tasks", "resume", "billing", "--reason", "again"}).out, HasSubstr("is not paused"));
  for (const std::string command : {"pause", "resume"}) {
    const CommandResult unknown = Sealane({"tasks", command, "billng", "--reason", "x"});
    EXPECT_EQ(unknown.code, 4) << unknown.err;
    EXPECT_THAT(unknown.err, HasSubstr("did you mean `billing`?"));
    EXPECT_EQ(Sealane({"tasks", command, "billing"}).code, 2) << "a reason is needed";
  }
}

TEST_P(TasksTest, DispatchersShareTheWork) {
  std::vector<std::string> ids;
  for (int i = 0; i < 30; ++i) ids.push_back(Enqueue(fmt::format("order-{}", i)));
  const Dispatcher one = Start("one", {"--workers", "2"});
  const Dispatcher two = Start("two", {"--workers", "2"});
  EXPECT_TRUE(Eventually([&] { return endpoint_.effects().size() == ids.size(); })) << one.log() << two.log();
  for (const std::string& id : ids) EXPECT_TRUE(Ends(id, "SUCCEEDED"));
  const int done = one.Stop()["succeeded"].get<int>() + two.Stop()["succeeded"].get<int>();
  EXPECT_EQ(done, 30);
  EXPECT_EQ(endpoint_.receiver().requests().size(), ids.size()) << "nothing was sent twice";
}

TEST_P(TasksTest, TakesOverWhatAKilledDispatcherWasDoing) {
  Configure(kHasty);
  const std::string id = Enqueue("held-1");
  {
    const Dispatcher victim = Start("victim");
    endpoint_.receiver().AwaitRequests(1);
    victim.process->Signal(SIGKILL);
    victim.process->Finish();
  }
  EXPECT_EQ(StateOf(id), "SENDING");
  const Dispatcher heir = Start("heir");
  EXPECT_TRUE(Ends(id, "SUCCEEDED")) << heir.log();
  EXPECT_EQ(endpoint_.effects(), (std::map<std::string, int>{{"held-1", 1}}));
  const json task = Show(id);
  ASSERT_EQ(task["history"].size(), 2U);
  EXPECT_EQ(task["history"][0]["code"], "interrupted");
  EXPECT_NE(task["history"][0]["owner"], task["history"][1]["owner"]);
}

TEST_P(TasksTest, FinishesAttemptsUnderWayWhenItIsStopped) {
  Configure("timeout = \"60s\"\n");
  const std::string id = Enqueue("held-1");
  const Dispatcher dispatcher = Start();
  endpoint_.receiver().AwaitRequests(1);
  dispatcher.process->Signal(SIGTERM);
  ASSERT_TRUE(dispatcher.Says("stopping: waiting for attempts under way"));
  EXPECT_EQ(StateOf(id), "SENDING");
  endpoint_.Release();
  const CommandResult end = dispatcher.process->Finish();
  EXPECT_EQ(end.code, 0) << dispatcher.log();
  EXPECT_EQ(json::parse(end.out)["succeeded"], 1);
  EXPECT_EQ(StateOf(id), "SUCCEEDED");
}

TEST_P(TasksTest, LeavesAtOnceOnTheSecondSignal) {
  Configure("timeout = \"60s\"\n");
  Enqueue("held-1");
  const Dispatcher dispatcher = Start();
  endpoint_.receiver().AwaitRequests(1);
  dispatcher.process->Signal(SIGTERM);
  ASSERT_TRUE(dispatcher.Says("stopping"));
  dispatcher.process->Signal(SIGTERM);
  EXPECT_EQ(dispatcher.process->Finish().code, 130) << dispatcher.log();
}

TEST_P(TasksTest, HoldsADoubtfulTaskWhereTheTargetKeepsNoKeys) {
  Configure("timeout = \"30s\"\nin_doubt = \"hold\"\n");
  const std::string id = Enqueue("lost-1");
  const Dispatcher dispatcher = Start();
  EXPECT_TRUE(Ends(id, "DEAD")) << dispatcher.log();
  EXPECT_EQ(endpoint_.RequestsOf("lost-1"), 1) << "nobody but a person sends it again";
  EXPECT_EQ(Show(id)["history"][0]["verdict"], "unknown");
}

TEST_P(TasksTest, ServesProbesAndMetrics) {
  const Dispatcher dispatcher = Start("one", {"--listen", "127.0.0.1:0"});
  const std::string before = "probes=http://127.0.0.1:";
  ASSERT_TRUE(dispatcher.Says(before)) << dispatcher.log();
  const std::string log = dispatcher.log();
  const int port = std::stoi(log.substr(log.find(before) + before.size()));
  ASSERT_TRUE(Ends(Enqueue("order-1"), "SUCCEEDED"));
  EXPECT_TRUE(
      Eventually([&] { return testing::HttpGet(port, "/readyz").find("\"ready\":true") != std::string::npos; }));
  EXPECT_THAT(testing::HttpGet(port, "/livez"), HasSubstr("\"alive\":true"));
  EXPECT_TRUE(Eventually([&] {
    return testing::HttpGet(port, "/metrics").find("sealane_tasks_succeeded_total{target=\"billing\"} 1") !=
           std::string::npos;
  })) << testing::HttpGet(port, "/metrics");
}

TEST_P(TasksTest, RunsUntilNothingIsDue) {
  for (int i = 0; i < 5; ++i) Enqueue(fmt::format("order-{}", i));
  const json stats = Json({"tasks", "run", "--until", "drained", "--timeout", "60s"});
  EXPECT_EQ(stats["drained"], true);
  EXPECT_EQ(stats["succeeded"], 5);
  EXPECT_EQ(Json({"tasks", "run", "--until", "drained", "--timeout", "60s"})["succeeded"], 0);
}

TEST_P(TasksTest, EnqueuesTheSameTaskOnceAndNoOtherWithItsKey) {
  const std::string id = Enqueue("order-1");
  EXPECT_EQ(Enqueue("order-1"), id);
  const CommandResult other = Sealane({"tasks", "enqueue", "--target", "billing", "--operation", "/charges", "--key",
                                       "order-1", "--request", "{\"cents\":6}", "-o", "json"});
  EXPECT_NE(other.code, 0);
  EXPECT_EQ(json::parse(other.err)["error"]["code"], "task_conflict");
  const CommandResult from_stdin =
      Sealane({"tasks", "enqueue", "--target", "billing", "--operation", "/charges", "--key", "order-2", "--request",
               "-", "--order-key", "c-1", "--not-before", "+1h"},
              "{\"cents\":7}");
  EXPECT_EQ(from_stdin.code, 0) << from_stdin.err;
  EXPECT_EQ(Json({"tasks", "list"})["tasks"].size(), 2U);
  EXPECT_EQ(Json({"tasks", "list", "--key", "order-2"})["tasks"].size(), 1U);
}

TEST_P(TasksTest, ShowsAndSettlesWhatIsDead) {
  const std::string one = Enqueue("bad-1");
  const std::string two = Enqueue("bad-2");
  const std::string waiting = Enqueue("good-1", {"--not-before", "+1h"});
  Json({"tasks", "run", "--until", "drained", "--timeout", "60s"});

  const json dead = Json({"tasks", "list", "--state", "DEAD", "--target", "billing", "--code", "http_400"});
  EXPECT_EQ(dead["tasks"].size(), 2U);
  EXPECT_EQ(dead["tasks"][0]["id"], two) << "newest first";
  EXPECT_THAT(Sealane({"tasks", "list"}).out, HasSubstr("http_400"));
  EXPECT_THAT(Sealane({"tasks", "show", one}).out, HasSubstr("the target answered 400"));

  const Words all = {"tasks", "retry", "--state", "DEAD", "--reason", "INC-1", "-o", "json"};
  const auto with = [&](const std::string& flag) {
    Words words = all;
    words.push_back(flag);
    return Sealane(words);
  };
  EXPECT_EQ(json::parse(with("--dry-run").out)["would_change"], 2);
  const CommandResult unasked = Sealane(all);
  EXPECT_NE(unasked.code, 0);
  EXPECT_EQ(json::parse(unasked.err)["error"]["code"], "approval_missing");
  EXPECT_EQ(StateOf(one), "DEAD");
  EXPECT_EQ(json::parse(with("--yes").out)["changed"], 2);
  EXPECT_EQ(StateOf(one), "FAILED");

  EXPECT_EQ(Json({"tasks", "discard", one, "--reason", "refunded by hand"})["changed"], 1);
  EXPECT_EQ(StateOf(one), "DISCARDED");
  EXPECT_EQ(Json({"tasks", "discard", waiting, "--reason", "not wanted"})["changed"], 1);
  for (const Words& words :
       {Words{"tasks", "discard", one, "--reason", "again"}, Words{"tasks", "retry", one, "--reason", "again"},
        Words{"tasks", "show", "018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f"}}) {
    Words json_words = words;
    json_words.insert(json_words.end(), {"-o", "json"});
    const CommandResult refused = Sealane(json_words);
    EXPECT_NE(refused.code, 0);
    EXPECT_EQ(json::parse(refused.err)["error"]["code"], "not_found") << refused.err;
  }
}

TEST_P(TasksTest, SaysWhatIsWrongWithACommandLine) {
  const std::vector<std::pair<Words, std::string>> wrong = {
      {{"tasks", "run", "--until", "never"}, "--until"},
      {{"tasks", "run", "--target", "billng"}, "did you mean `billing`?"},
      {{"tasks", "run", "--target", "other=ftp://host"}, "no HTTP address"},
      {{"tasks", "run", "--workers", "0"}, "--workers"},
      {{"tasks", "list", "--state", "GONE"}, "--state"},
      {{"tasks", "show", "x"}, "not a task id"},
      {{"tasks", "retry", "--reason", "r"}, "needs a task or a filter"},
      {{"tasks", "retry", "--all", "--key", "k", "--reason", "r"}, "--all"},
      {{"tasks", "retry", "--state", "SUCCEEDED", "--reason", "r"}, "--state"},
      {{"tasks", "enqueue", "--target", "billing", "--operation", "/x", "--key", "k", "--request", "@/no/such"},
       "--request"},
  };
  for (const auto& [words, text] : wrong) {
    const CommandResult result = Sealane(words);
    EXPECT_EQ(result.code, 2) << text;
    EXPECT_THAT(result.err, HasSubstr(text));
  }
  std::ofstream(folder() + "/sealane.toml", std::ios::trunc) << "[target.billing]\nur = \"http://x\"\n";
  const CommandResult misspelt = Sealane({"tasks", "run"});
  EXPECT_EQ(misspelt.code, 78);
  EXPECT_THAT(misspelt.err, HasSubstr("sealane.toml:2"));
  EXPECT_THAT(misspelt.err, HasSubstr("did you mean `target.billing.url`?"));
  std::ofstream(folder() + "/sealane.toml", std::ios::trunc) << "";
  const CommandResult none = Sealane({"tasks", "run"});
  EXPECT_EQ(none.code, 78);
  EXPECT_THAT(none.err, HasSubstr("no target is given"));
}

}  // namespace
}  // namespace sealane
