// Protects `sealane relay` as an operator runs it: what it ships, how it starts, stops and reloads, what it tells.

#include <csignal>
#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/http_receiver.hpp"
#include "support/journal_file.hpp"
#include "support/running_relay.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using nlohmann::json;
using testing::CommandResult;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::HttpGet;
using testing::HttpReceiver;
using testing::ReadJournal;
using testing::RunningRelay;
using testing::RunSealane;
using testing::SqliteFile;
using testing::SqliteHandle;

using Variables = std::map<std::string, std::string>;

// Nothing listens on port 1.
constexpr const char* kNowhere = "postgres://nobody@127.0.0.1:1/nothing";

class RelayDaemonTest : public ::testing::Test {
 protected:
  std::string folder() const { return place_.folder(); }
  std::string Store(const std::string& name = "shop") const { return "sqlite:" + folder() + "/" + name + ".db"; }
  std::string JournalPath(const std::string& name = "journal") const { return folder() + "/" + name + ".db"; }
  std::string Journal(const std::string& name = "journal") const { return "journal:" + JournalPath(name); }
  std::string WriteConfig(const std::string& text) const {
    const std::string path = folder() + "/sealane.toml";
    std::ofstream(path, std::ios::trunc) << text;
    return path;
  }

  void Migrate(const std::string& name = "shop") const {
    const CommandResult up = RunSealane({"migrate", "up", "--store", Store(name)});
    ASSERT_EQ(up.code, 0) << up.err;
  }
  /// Events n = first, first + 1, ... over seven keys, in one transaction.
  void Emit(int count, int first = 1, const std::string& name = "shop", const Variables& variables = {}) const {
    std::string lines;
    for (int n = first; n < first + count; ++n) {
      lines +=
          fmt::format("{{\"topic\":\"orders\",\"key\":\"k{}\",\"type\":\"T\",\"payload\":{{\"n\":{}}}}}\n", n % 7, n);
    }
    const CommandResult emitted = RunSealane({"emit", "--jsonl", "-", "--store", Store(name)}, lines, variables);
    ASSERT_EQ(emitted.code, 0) << emitted.err;
  }

  /// The numbers in a journal by key, in the order of their offsets.
  std::map<std::string, std::vector<int>> Delivered(const std::string& name = "journal") const {
    std::map<std::string, std::vector<int>> delivered;
    for (const auto& [key, values] : ReadJournal(JournalPath(name))) {
      for (const std::string& value : values) delivered[key].push_back(json::parse(value)["payload"]["n"]);
    }
    return delivered;
  }
  std::size_t DeliveredCount(const std::string& name = "journal") const {
    std::size_t count = 0;
    for (const auto& [key, numbers] : Delivered(name)) count += numbers.size();
    return count;
  }

  SqliteFile place_;
};

TEST_F(RelayDaemonTest, ShipsEverythingOnceAndInOrder) {
  Migrate();
  Emit(100);
  const CommandResult drained = RunSealane(
      {"relay", "--store", Store(), "--broker", Journal(), "--until", "drained", "--timeout", "60s", "-o", "json"});
  ASSERT_EQ(drained.code, 0) << drained.err;
  const json summary = json::parse(drained.out);
  EXPECT_EQ(summary["drained"], true);
  EXPECT_EQ(summary["published"], 100);
  EXPECT_EQ(summary["repeated"], 0);
  EXPECT_EQ(summary["parked"], 0);
  EXPECT_GT(summary["events_per_second"], 0);
  EXPECT_EQ(DeliveredCount(), 100U);
  for (const auto& [key, numbers] : Delivered()) {
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end())) << key;
    EXPECT_EQ(std::set<int>(numbers.begin(), numbers.end()).size(), numbers.size()) << key;
  }
  const CommandResult again = RunSealane(
      {"relay", "--store", Store(), "--broker", Journal(), "--until", "drained", "--timeout", "60s", "-o", "json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["published"], 0) << "what is settled is not sent again";
}

// Drained means that nothing is pending on the route, whichever relay has published it.
TEST_F(RelayDaemonTest, IsDrainedBesideAnotherRelayThatHoldsTheLane) {
  Migrate();
  const RunningRelay other(folder(), {"--store", Store(), "--broker", Journal(), "--listen", "off"});
  ASSERT_TRUE(other.Says("lanes taken")) << other.log();
  Emit(50);
  const CommandResult drained = RunSealane(
      {"relay", "--store", Store(), "--broker", Journal(), "--until", "drained", "--timeout", "60s", "-o", "json"});
  ASSERT_EQ(drained.code, 0) << drained.err;
  EXPECT_EQ(json::parse(drained.out)["drained"], true);
  EXPECT_EQ(DeliveredCount(), 50U) << "not before the other one had published them";
  EXPECT_EQ(other.Stop().code, 0) << other.log();
}

TEST_F(RelayDaemonTest, DrainsOnTheFirstSignalAndEndsWellWithNothingTwice) {
  Migrate();
  for (int round = 0; round < 3; ++round) {
    Emit(2'000, 1 + round * 2'000);
    const RunningRelay relay(folder(), {"--store", Store(), "--broker", Journal(), "--listen", "off"});
    ASSERT_TRUE(relay.Says("lanes taken")) << relay.log();
    const CommandResult end = relay.Stop();
    EXPECT_EQ(end.code, 0) << relay.log();
    EXPECT_THAT(relay.log(), HasSubstr("stopping"));
  }
  ASSERT_EQ(
      RunSealane({"relay", "--store", Store(), "--broker", Journal(), "--until", "drained", "--timeout", "60s"}).code,
      0);
  EXPECT_EQ(DeliveredCount(), 6'000U);
}

TEST_F(RelayDaemonTest, LeavesAtOnceOnTheSecondSignal) {
  Migrate();
  Emit(1);
  // The message has nowhere to go, so the drain would wait for its whole minute.
  const RunningRelay relay(folder(),
                           {"--store", Store(), "--broker", "kafka://127.0.0.1:1", "--listen", "127.0.0.1:0"},
                           {{"SEALANE_RELAY__DRAIN_TIMEOUT", "10m"}});
  const int port = relay.port();
  ASSERT_TRUE(Eventually([&] {
    return HttpGet(port, "/metrics").find("sealane_inflight_messages{store=\"default\",route=\"main\"} 1") !=
           std::string::npos;
  })) << HttpGet(port, "/metrics");
  relay.Signal(SIGTERM);
  ASSERT_TRUE(relay.Says("stopping")) << relay.log();
  relay.Signal(SIGTERM);
  EXPECT_EQ(relay.Finish().code, 130);
}

TEST_F(RelayDaemonTest, ServesProbesAndMetrics) {
  Migrate();
  Emit(10);
  const RunningRelay relay(folder(), {"--store", Store(), "--broker", Journal(), "--listen", "127.0.0.1:0"});
  const int port = relay.port();
  EXPECT_TRUE(Eventually([&] { return HttpGet(port, "/readyz").starts_with("HTTP/1.1 200 "); }));
  EXPECT_THAT(HttpGet(port, "/livez"), HasSubstr("\"alive\":true"));
  EXPECT_TRUE(Eventually([&] {
    return HttpGet(port, "/metrics")
               .find("sealane_published_messages_total{store=\"default\",route=\"main\",topic=\"orders\"} 10") !=
           std::string::npos;
  })) << HttpGet(port, "/metrics");
  EXPECT_EQ(relay.Stop().code, 0);
}

TEST_F(RelayDaemonTest, KeepsTryingAStoreThatIsAway) {
  const RunningRelay relay(folder(), {"--store", kNowhere, "--broker", Journal(), "--listen", "127.0.0.1:0"});
  const int port = relay.port();
  EXPECT_TRUE(Eventually([&] {
    const std::string answer = HttpGet(port, "/readyz");
    return answer.starts_with("HTTP/1.1 503 ") && answer.find("\"problem\"") != std::string::npos;
  })) << HttpGet(port, "/readyz");
  EXPECT_THAT(HttpGet(port, "/livez"), HasSubstr("\"alive\":true")) << "a restart would not bring the store back";
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
}

TEST_F(RelayDaemonTest, EndsWithAHintWhenWaitingDoesNotHelp) {
  const CommandResult missing = RunSealane({"relay", "--store", Store(), "--broker", Journal(), "--listen", "off"});
  EXPECT_EQ(missing.code, 18) << missing.err;
  { const SqliteHandle empty(folder() + "/shop.db"); }
  std::ofstream(folder() + "/shop.db").close();
  const CommandResult no_tables = RunSealane({"relay", "--store", Store(), "--broker", Journal(), "--listen", "off"});
  EXPECT_EQ(no_tables.code, 17) << no_tables.err;
  EXPECT_THAT(no_tables.err, HasSubstr("hint:"));
  Migrate();
  EXPECT_EQ(RunSealane({"relay", "--store", Store(), "--broker", "rabbit://x"}).code, 2);
  EXPECT_EQ(RunSealane({"relay", "--store", Store()}).code, 78) << "no broker";
  const CommandResult bad_option =
      RunSealane({"relay", "--store", Store(), "--broker", "kafka://127.0.0.1:1", "--listen", "off"}, "",
                 {{"SEALANE_BROKER__KAFKA__NO_SUCH_PROPERTY", "x"}});
  EXPECT_EQ(bad_option.code, 78) << bad_option.err;
  EXPECT_THAT(bad_option.err, HasSubstr("no.such.property"));
}

TEST_F(RelayDaemonTest, SaysWhyItIsNotDrainedInTime) {
  Migrate();
  Emit(1);
  const CommandResult end = RunSealane({"relay", "--store", Store(), "--broker", "kafka://127.0.0.1:1", "--until",
                                        "drained", "--timeout", "15s", "-o", "json"},
                                       "", {{"SEALANE_RELAY__DRAIN_TIMEOUT", "1s"}});
  EXPECT_EQ(end.code, 11) << end.err;
  EXPECT_EQ(json::parse(end.out)["drained"], false);
}

TEST_F(RelayDaemonTest, KeepsItsLimitWhenTheBrokerIsAway) {
  Migrate();
  Emit(1);
  const auto begin = std::chrono::steady_clock::now();
  const CommandResult end = RunSealane({"relay", "--store", Store(), "--broker", "kafka://127.0.0.1:1", "--until",
                                        "drained", "--timeout", "2s", "-o", "json"});
  // So early it may not know yet that it is the broker.
  EXPECT_TRUE(end.code == 11 || end.code == 7) << end.err;
  // Much less than relay.drain_timeout, much more than a busy machine takes to end a process.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{6}) << end.err;
}

TEST_F(RelayDaemonTest, SaysAtTheEndWhatIsSetAside) {
  HttpReceiver receiver;
  receiver.SetHandler([](const HttpReceiver::Request&) { return HttpReceiver::Answer{.status = 400}; });
  Migrate();
  Emit(3);
  const CommandResult end =
      RunSealane({"relay", "--store", Store(), "--broker", receiver.url(), "--until", "drained", "-o", "json"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(json::parse(end.out)["parked"], 3) << end.out;
}

TEST_F(RelayDaemonTest, LetsTheOthersFlowWhenOneStoreIsAway) {
  Migrate();
  Emit(20);
  const std::string config =
      WriteConfig(fmt::format("[store]\nurl = \"{}\"\n[stores.away]\nurl = \"{}\"\n"
                              "[broker]\nurl = \"{}\"\n[relay]\nlisten = \"127.0.0.1:0\"\n"
                              "[route.main]\nstore = [\"default\", \"away\"]\n",
                              Store(), kNowhere, Journal()));
  const RunningRelay relay(folder(), {"--config", config});
  EXPECT_TRUE(Eventually([&] { return DeliveredCount() == 20; })) << relay.log();
  const int port = relay.port();
  EXPECT_TRUE(Eventually([&] { return HttpGet(port, "/readyz").find("\"problem\"") != std::string::npos; }));
  EXPECT_THAT(HttpGet(port, "/readyz"), HasSubstr("HTTP/1.1 200 ")) << "one of them works";
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
}

TEST_F(RelayDaemonTest, KeepsTheOldConfigurationWhenTheNewOneIsBroken) {
  Migrate();
  const std::string good =
      fmt::format("[store]\nurl = \"{}\"\n[broker]\nurl = \"{}\"\n[relay]\nlisten = \"off\"\n", Store(), Journal());
  const std::string config = WriteConfig(good);
  const RunningRelay relay(folder(), {"--config", config});
  ASSERT_TRUE(relay.Says("lanes taken")) << relay.log();
  WriteConfig(good + "[route.main]\nordr = \"key\"\n");
  relay.Signal(SIGHUP);
  ASSERT_TRUE(relay.Says("configuration not reloaded")) << relay.log();
  EXPECT_THAT(relay.log(), HasSubstr("sealane.toml:8: unknown key `route.main.ordr`"));
  Emit(5);
  EXPECT_TRUE(Eventually([&] { return DeliveredCount() == 5; })) << relay.log();
  EXPECT_EQ(relay.Stop().code, 0);
}

TEST_F(RelayDaemonTest, RestartsOnlyTheRoutesThatChanged) {
  Migrate();
  const auto text = [&](const std::string& retry, const std::string& more) {
    return fmt::format(
        "[store]\nurl = \"{}\"\n[broker]\nurl = \"{}\"\n[brokers.second]\nurl = \"{}\"\n"
        "[relay]\nlisten = \"off\"\n[route.main]\n[route.copy]\nbroker = \"second\"\nretry.preset = \"{}\"\n{}",
        Store(), Journal(), Journal("second"), retry, more);
  };
  const std::string config = WriteConfig(text("brief", ""));
  const RunningRelay relay(folder(), {"--config", config});
  Emit(5);
  EXPECT_TRUE(Eventually([&] { return DeliveredCount() == 5 && DeliveredCount("second") == 5; })) << relay.log();
  WriteConfig(text("payments", "[log]\nlevel = \"debug\"\n"));
  relay.Signal(SIGHUP);
  ASSERT_TRUE(relay.Says("configuration reloaded")) << relay.log();
  EXPECT_THAT(relay.log(), HasSubstr("restarted=default/copy"));
  EXPECT_THAT(relay.log(), HasSubstr("unchanged=1"));
  Emit(5, 6);
  EXPECT_TRUE(Eventually([&] { return DeliveredCount() == 10 && DeliveredCount("second") == 10; })) << relay.log();
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
}

TEST_F(RelayDaemonTest, LooksAtOnceWhenItIsWoken) {
  Migrate();
  const Variables wake = {{"SEALANE_RELAY__WAKE", "unix:" + folder() + "/wake"}, {"SEALANE_RELAY__POLL_MAX", "1h"}};
  const RunningRelay relay(folder(), {"--store", Store(), "--broker", Journal(), "--listen", "off"}, wake);
  Emit(1, 1, "shop", wake);
  ASSERT_TRUE(Eventually([&] { return DeliveredCount() == 1; })) << relay.log();
  // Idle by now, with the next look an hour away.
  for (int n = 2; n <= 4; ++n) {
    Emit(1, n, "shop", wake);
    EXPECT_TRUE(Eventually([&] { return DeliveredCount() == static_cast<std::size_t>(n); })) << relay.log();
  }
  EXPECT_EQ(relay.Stop().code, 0);
}

TEST_F(RelayDaemonTest, TellsTheServiceManager) {
  Migrate();
  const std::string path = folder() + "/notify";
  const int receiver = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(receiver, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  std::string heard;
  const auto hears = [&](const std::string& text) {
    return Eventually([&] {
      char block[4096];
      for (ssize_t count = 0; (count = ::recv(receiver, block, sizeof block, MSG_DONTWAIT)) > 0;) {
        heard.append(block, static_cast<std::size_t>(count));
        heard += '\n';
      }
      return heard.find(text) != std::string::npos;
    });
  };
  const RunningRelay relay(folder(), {"--store", Store(), "--broker", Journal(), "--listen", "off"},
                           {{"NOTIFY_SOCKET", path}, {"WATCHDOG_USEC", "1000000"}});
  EXPECT_TRUE(hears("READY=1")) << heard;
  EXPECT_TRUE(hears("WATCHDOG=1\nSTATUS=0 published")) << heard;
  relay.Signal(SIGTERM);
  EXPECT_TRUE(hears("STOPPING=1")) << heard;
  EXPECT_EQ(relay.Finish().code, 0);
  ::close(receiver);
}

TEST_F(RelayDaemonTest, WritesEventsToStandardOutput) {
  Migrate();
  Emit(3);
  const CommandResult end = RunSealane(
      {"relay", "--store", Store(), "--broker", "stdout:", "--until", "drained", "--timeout", "60s", "-o", "json"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(std::count(end.out.begin(), end.out.end(), '\n'), 3) << "events alone: " << end.out;
  EXPECT_EQ(json::parse(end.out.substr(0, end.out.find('\n')))["topic"], "orders");
  EXPECT_THAT(end.err, HasSubstr("\"drained\":true"));
}

TEST_F(RelayDaemonTest, RefusesAnAddressThatIsTakenWhenItWasAskedFor) {
  Migrate();
  const RunningRelay first(folder(), {"--store", Store(), "--broker", Journal(), "--listen", "127.0.0.1:0"});
  const std::string address = fmt::format("127.0.0.1:{}", first.port());
  const CommandResult second = RunSealane({"relay", "--store", Store(), "--broker", Journal(), "--listen", address});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, HasSubstr("something else listens on " + address));
  EXPECT_EQ(first.Stop().code, 0);
}

}  // namespace
}  // namespace sealane
