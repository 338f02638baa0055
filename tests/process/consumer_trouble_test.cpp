// Protects what consumers do when their surroundings misbehave: one that slept through its session while another took
// over, members that come and go all the time, a server that crashes underneath. Each event takes effect once, in the
// order of its key, whatever happened.

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/consume_place.hpp"
#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"

namespace sealane::testing {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kKeys = 20;
constexpr std::int64_t kLeftToOthers = 500;

struct Setup {
  std::string place;
  std::string mode;
};

/// Returns when every thread of it has stopped: the signal alone is only a request.
void Freeze(const ChildProcess& process) {
  process.Signal(SIGSTOP);
  const auto stopped = [](const std::filesystem::directory_entry& thread) {
    std::ifstream file(thread.path() / "stat");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const std::size_t name_end = text.rfind(')');
    return name_end != std::string::npos && text.substr(name_end, 3) == ") T";
  };
  EXPECT_TRUE(Eventually([&] {
    const std::filesystem::directory_iterator threads(fmt::format("/proc/{}/task", process.pid()));
    return std::all_of(begin(threads), end(threads), stopped);
  }));
}

class ConsumerTrouble : public ::testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    if (GetParam().place == "postgres_kafka") SEALANE_REQUIRE_KAFKA();
    place_ = std::make_unique<ConsumePlace>(GetParam().place, 4);
    consumer_ = place_->topic() + "-billing";
  }

  std::unique_ptr<ChildProcess> Start(const std::string& name) const {
    return place_->Start(name, consumer_, {"--mode", GetParam().mode, "--batch", "5"});
  }
  void PublishMore(int versions) {
    std::vector<Envelope> events;
    for (int i = 0; i < versions; ++i) {
      ++version_;
      for (int key = 0; key < kKeys; ++key) events.push_back(ChangeOf(fmt::format("k{}", key), version_));
    }
    place_->Publish(events);
    events_.insert(events_.end(), events.begin(), events.end());
  }
  bool AwaitEffects(std::size_t count) const {
    return Eventually([&] { return static_cast<std::size_t>(place_->CountEffects(consumer_)) >= count; });
  }
  void ExpectCleanEnd(ChildProcess& process, const std::string& name) const {
    process.Signal(SIGTERM);
    EXPECT_EQ(process.Finish().code, 0) << place_->ReadLog(name);
  }
  void ExpectAllOnce() const {
    EXPECT_EQ(place_->AheadComplaint(consumer_), "");
    EXPECT_EQ(place_->Complaint(consumer_, events_, GetParam().mode == "record"), "");
  }
  std::int64_t Unapplied() const {
    return static_cast<std::int64_t>(events_.size()) - place_->CountEffects(consumer_);
  }
  std::int64_t Epochs() const {
    return place_->Number(fmt::format("SELECT coalesce(sum(epoch), 0) FROM {} WHERE consumer = '{}'",
                                      place_->Table(place_->is_kafka() ? "inbox_progress" : "inbox_partition"),
                                      consumer_));
  }

  /// Whether no stopped process holds a lock that others wait for.
  bool NobodyIsInATransaction() const {
    if (place_->is_kafka()) {
      return place_->Number(
                 "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                 "AND pid <> pg_backend_pid() AND state <> 'idle'") == 0;
    }
    const auto free = [](const std::string& path) {
      const SqliteHandle handle(path);
      return handle.ErrorOf("BEGIN IMMEDIATE; ROLLBACK").empty();
    };
    return free(place_->folder() + "/journal.db") && free(place_->store_url().substr(std::string("sqlite:").size()));
  }

  std::unique_ptr<ConsumePlace> place_;
  std::string consumer_;
  std::vector<Envelope> events_;
  std::int64_t version_ = 0;
};

TEST_P(ConsumerTrouble, OneThatSleptThroughItsSessionAppliesNothingAgain) {
  PublishMore(150);
  const auto zombie = Start("zombie");
  ASSERT_TRUE(AwaitEffects(100)) << place_->ReadLog("zombie");
  // It sleeps with events in its hands, but with no lock: others could only wait for one. A quick one may be done
  // before a quiet moment is found, and then gets more.
  ASSERT_TRUE(Eventually([&] {
    Freeze(*zombie);
    const bool quiet = NobodyIsInATransaction();
    if (quiet && Unapplied() >= kLeftToOthers) return true;
    if (quiet) PublishMore(150);
    zombie->Signal(SIGCONT);
    return false;
  }));
  const std::int64_t epochs = Epochs();
  const std::int64_t effects = place_->CountEffects(consumer_);
  const auto heir = Start("heir");
  // A group may wait for a silent member without a name for a minute (docs/inbox.md), and then shares out anew.
  ASSERT_TRUE(Eventually([&] { return Epochs() > epochs && place_->CountEffects(consumer_) > effects; }, seconds{90}))
      << "nobody took over: " << place_->ReadLog("heir");
  zombie->Signal(SIGCONT);
  PublishMore(50);
  EXPECT_TRUE(AwaitEffects(events_.size())) << place_->ReadLog("zombie") << place_->ReadLog("heir");
  ExpectCleanEnd(*zombie, "zombie");
  ExpectCleanEnd(*heir, "heir");
  ExpectAllOnce();
}

// With SEALANE_TEST_LONG for a minute.
TEST_P(ConsumerTrouble, MembersThatComeAndGoApplyEachEventOnce) {
  const auto end = steady_clock::now() + (std::getenv("SEALANE_TEST_LONG") != nullptr ? seconds{60} : seconds{15});
  std::deque<std::pair<std::string, std::unique_ptr<ChildProcess>>> members;
  int started = 0;
  while (steady_clock::now() < end) {
    const std::string name = fmt::format("member-{}", started++);
    members.emplace_back(name, Start(name));
    const auto next = steady_clock::now() + seconds{1};
    PublishMore(10);
    std::this_thread::sleep_until(next);  // how often they come and go is what this is about
    if (members.size() < 3) continue;
    ExpectCleanEnd(*members.front().second, members.front().first);
    members.pop_front();
  }
  EXPECT_TRUE(AwaitEffects(events_.size())) << place_->ReadLog(members.front().first);
  for (auto& [name, process] : members) ExpectCleanEnd(*process, name);
  ExpectAllOnce();
  std::cout << fmt::format("{} events, {} members\n", events_.size(), started);
}

INSTANTIATE_TEST_SUITE_P(Setups, ConsumerTrouble,
                         ::testing::Values(Setup{"sqlite_journal", "record"}, Setup{"sqlite_journal", "offsets"},
                                           Setup{"postgres_kafka", "record"}, Setup{"postgres_kafka", "offsets"}),
                         [](const auto& setup) { return setup.param.place + "_" + setup.param.mode; });

/// A server of its own, which the test may hurt; other places of this process are made in it as long as it lives.
class OwnServer {
 public:
  OwnServer() {
    Script("start");
    std::ifstream file(kDirectory + ".url");
    std::getline(file, url_);
    ::setenv("SEALANE_TEST_POSTGRES", url_.c_str(), 1);
  }
  ~OwnServer() {
    ::unsetenv("SEALANE_TEST_POSTGRES");
    Script("remove");
  }
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;
  /// Kills one of its processes that serve a consumer: the server throws all sessions out and recovers from its log.
  /// Returns when it is back.
  void Crash(const std::string& database) const {
    PgSession witness(url_);
    const std::string find = fmt::format(
        "SELECT pid FROM pg_stat_activity WHERE datname = '{}' AND application_name = 'sealane-consume' ORDER BY pid "
        "LIMIT 1",
        database);
    // One that is about to end by itself takes nobody with it.
    ASSERT_TRUE(Eventually([&] {
      PGresult* const found = PQexec(witness.get(), find.c_str());
      if (PQntuples(found) > 0) ::kill(std::stoi(PQgetvalue(found, 0, 0)), SIGKILL);
      PQclear(found);
      return PQstatus(witness.get()) != CONNECTION_OK;
    })) << "it did not crash";
    ASSERT_TRUE(Eventually([&] { return Answers(); })) << "it did not come back";
  }

 private:
  /// Whether it lets somebody in.
  bool Answers() const {
    PGconn* const connection = PQconnectdb(url_.c_str());
    const bool in = PQstatus(connection) == CONNECTION_OK;
    PQfinish(connection);
    return in;
  }

  static void Script(const std::string& verb) {
    const std::string command =
        fmt::format("{}/scripts/test_postgres {} {} >/dev/null", SEALANE_TEST_SOURCE_DIR, verb, kDirectory);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }
  static inline const std::string kDirectory = SEALANE_TEST_BUILD_DIR "/test-postgres-consumer";
  std::string url_;
};

TEST(ConsumerTroubleOwnServer, AServerThatCrashesUnderneathLosesAndRepeatsNothing) {
  SEALANE_REQUIRE_KAFKA();
  const OwnServer server;
  for (const std::string mode : {"record", "offsets"}) {
    ConsumePlace place("postgres_kafka", 4);
    const std::string consumer = place.topic() + "-billing";
    const std::string database = place.store_url().substr(place.store_url().rfind('/') + 1);
    std::vector<Envelope> events = ChangesOf(kKeys, 200);
    place.Publish(events);
    const auto process = place.Start(mode, consumer, {"--mode", mode, "--batch", "5"});
    std::int64_t effects = 0;
    for (int crash = 0; crash < 4; ++crash) {
      ASSERT_TRUE(Eventually([&] { return place.CountEffects(consumer) > effects; })) << place.ReadLog(mode);
      effects = place.CountEffects(consumer);
      server.Crash(database);
      if (HasFatalFailure()) return;
      if (effects == static_cast<std::int64_t>(events.size())) break;
    }
    EXPECT_TRUE(Eventually([&] { return place.CountEffects(consumer) >= static_cast<std::int64_t>(events.size()); }))
        << place.ReadLog(mode);
    process->Signal(SIGTERM);
    EXPECT_EQ(process->Finish().code, 0) << place.ReadLog(mode);
    EXPECT_EQ(place.Complaint(consumer, events, mode == "record"), "") << mode;
  }
}

}  // namespace
}  // namespace sealane::testing
