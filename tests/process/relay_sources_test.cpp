// Protects one relay process that serves several databases: one that cannot be reached stops nobody else, is named
// wherever an operator looks, and is served again by itself when it is back. Real PostgreSQL.

#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/eventually.hpp"
#include "support/journal_file.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/running_relay.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kKeys = 4;

/// A database with an outbox, and somebody who writes to it, also while nobody else can connect.
class Source {
 public:
  explicit Source(std::string name) : name_(std::move(name)) {
    Migrate(database_.url());
    session_ = std::make_unique<PgSession>(database_.url());
    writer_pid_ = ::PQbackendPID(session_->get());
  }

  const std::string& name() const { return name_; }
  const std::string& url() const { return database_.url(); }
  int appended() const { return appended_; }
  std::string KeyOf(int k) const { return fmt::format("{}-{}", name_, k); }

  /// The next number for every key.
  void Append(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      session_->Exec(fmt::format(
          "select count(sealane.emit('orders', '{}-' || g, 'T', '{}'::text)) from generate_series(0, {}) g", name_,
          appended_, kKeys - 1));
      ++appended_;
    }
  }
  bool AllPublished() {
    return session_->Exec("select count(*) from sealane.outbox_status where status <> 'PUBLISHED'") == "0";
  }
  std::string CountUnpublished() {
    return session_->Exec("select count(*) from sealane.outbox_status where status <> 'PUBLISHED'");
  }

  /// Ends every connection but the writer's, and lets nobody in. From any thread.
  void Cut() const {
    PgSession cluster(ClusterUrl());
    cluster.Exec(fmt::format("alter database {} allow_connections false", database_.name()));
    cluster.Exec(fmt::format(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = '{}' and pid <> {}",
        database_.name(), writer_pid_));
  }
  void Restore() const {
    PgSession(ClusterUrl()).Exec(fmt::format("alter database {} allow_connections true", database_.name()));
  }

 private:
  std::string name_;
  ScratchDatabase database_;
  std::unique_ptr<PgSession> session_;
  int writer_pid_ = 0;
  std::atomic<int> appended_{0};
};

class RelaySources : public ::testing::Test {
 protected:
  std::string JournalPath() const { return place_.folder() + "/journal.db"; }
  std::unique_ptr<RunningRelay> StartRelay() const {
    const std::string config = place_.folder() + "/sealane.toml";
    std::ofstream(config) << fmt::format(
        "[stores.eu]\nurl = \"{}\"\n[stores.us]\nurl = \"{}\"\n[broker]\nurl = \"journal:{}\"\n"
        "[relay]\nlisten = \"127.0.0.1:0\"\nlease = \"2s\"\n"
        "[route.main]\nstore = [\"eu\", \"us\"]\nprofile = \"raw\"\n",
        eu_.url(), us_.url(), JournalPath());
    return std::make_unique<RunningRelay>(place_.folder(), std::vector<std::string>{"--config", config});
  }

  /// How many numbers of each key of a source have arrived without a gap and in order; repetitions do not count.
  int Arrived(const Source& source) const {
    const auto journal = ReadJournal(JournalPath());
    int least = source.appended();
    for (int k = 0; k < kKeys; ++k) {
      int due = 0;
      const auto found = journal.find(source.KeyOf(k));
      if (found == journal.end()) return 0;
      for (const std::string& value : found->second) {
        EXPECT_LE(std::stoi(value), due) << found->first << " was inverted";
        if (std::stoi(value) == due) ++due;
      }
      least = std::min(least, due);
    }
    return least;
  }
  std::size_t CountRecords() const {
    std::size_t count = 0;
    for (const auto& [key, values] : ReadJournal(JournalPath())) count += values.size();
    return count;
  }
  static bool HasProblem(const RunningRelay& relay, const Source& source) {
    return relay.Readiness(source.name(), "main").contains("problem");
  }
  static std::string Metric(const RunningRelay& relay, const Source& source, const std::string& name) {
    return relay.Metric(fmt::format("sealane_{}{{store=\"{}\",route=\"main\"}}", name, source.name()));
  }

  Source eu_{"eu"};
  Source us_{"us"};
  SqliteFile place_;  // for a folder
};

TEST_F(RelaySources, ADatabaseThatIsAwayIsNamedAndServedAgainByItself) {
  eu_.Append(5);
  us_.Append(5);
  const auto relay = StartRelay();
  // Settled, so that nothing has to be sent again later.
  ASSERT_TRUE(Eventually([&] { return eu_.AllPublished() && us_.AllPublished(); })) << relay->log();
  EXPECT_FALSE(HasProblem(*relay, eu_) || HasProblem(*relay, us_)) << relay->Get("/readyz");

  us_.Cut();
  us_.Append(5);
  eu_.Append(5);
  EXPECT_TRUE(Eventually([&] { return Arrived(eu_) == 10; })) << relay->log();
  const auto reason = [&] { return relay->Readiness("us", "main").value("problem", ""); };
  const std::string refusal = "not currently accepting connections";
  ASSERT_TRUE(Eventually([&] { return reason().find(refusal) != std::string::npos; }, seconds{20})) << relay->log();
  // It stays named for as long as it lasts, which is longer here than the lease and than the first few retries.
  for (int look = 0; look < 60; ++look) {
    const std::string code = relay->Readiness("us", "main").value("code", "");
    ASSERT_THAT(code, AnyOf("store_unreachable", "connection_lost")) << "look " << look;
    ASSERT_EQ(Metric(*relay, us_, "degraded"), "1") << "look " << look;
    ASSERT_FALSE(HasProblem(*relay, eu_)) << "look " << look;
    std::this_thread::sleep_for(milliseconds{50});
  }
  EXPECT_EQ(Metric(*relay, eu_, "degraded"), "0");
  EXPECT_NE(Metric(*relay, us_, "relay_restarts_total"), "0");
  EXPECT_EQ(Metric(*relay, eu_, "relay_restarts_total"), "0");
  EXPECT_THAT(relay->LineWith({"relay loop failed", "store=us"}), HasSubstr("error="));
  EXPECT_EQ(relay->LineWith({"relay loop failed", "store=eu"}), "");
  EXPECT_THAT(relay->Get("/readyz"), HasSubstr("HTTP/1.1 200 ")) << "one of them works";
  EXPECT_THAT(relay->Get("/livez"), HasSubstr("\"alive\":true"));
  eu_.Append(5);
  EXPECT_TRUE(Eventually([&] { return Arrived(eu_) == 15; })) << relay->log();
  EXPECT_EQ(Arrived(us_), 5) << "nothing came in while it was away";

  us_.Restore();
  EXPECT_TRUE(Eventually([&] { return Arrived(us_) == 10; })) << relay->log();
  EXPECT_TRUE(Eventually([&] { return us_.AllPublished(); })) << us_.CountUnpublished();
  EXPECT_TRUE(Eventually([&] { return !HasProblem(*relay, us_) && Metric(*relay, us_, "degraded") == "0"; }))
      << relay->Get("/readyz");
  // Lanes whose lease ran out meanwhile are given back and taken anew.
  EXPECT_TRUE(Eventually([&] { return relay->Readiness("us", "main")["state"] == "running"; })) << relay->log();
  EXPECT_EQ(CountRecords(), static_cast<std::size_t>(kKeys * (eu_.appended() + us_.appended()))) << "each once";
  EXPECT_EQ(relay->Stop().code, 0) << relay->log();
}

// In the middle of everything: pages are read, messages on their way, progress half written.
TEST_F(RelaySources, ADatabaseThatGoesAwayUnderLoadLosesNothing) {
  const auto relay = StartRelay();
  std::atomic<bool> over{false};
  // A steady load rather than a flood: the journal is read as a whole again and again.
  const auto write = [&](Source& source) {
    for (; !over && !HasFailure(); std::this_thread::sleep_for(milliseconds{2})) source.Append(1);
  };
  {
    std::jthread eu_writer(write, std::ref(eu_));
    std::jthread us_writer(write, std::ref(us_));
    for (int cut = 0; cut < 3; ++cut) {
      const std::size_t before = CountRecords();
      EXPECT_TRUE(Eventually([&] { return CountRecords() > before + 100; })) << relay->log();
      us_.Cut();
      const int eu_before = Arrived(eu_);
      EXPECT_TRUE(Eventually([&] { return Arrived(eu_) > eu_before + 20; })) << relay->log();
      EXPECT_TRUE(Eventually([&] { return HasProblem(*relay, us_); })) << relay->Get("/readyz");
      us_.Restore();
      const int us_before = Arrived(us_);
      EXPECT_TRUE(Eventually([&] { return Arrived(us_) > us_before; })) << relay->log();
    }
    over = true;
  }
  EXPECT_TRUE(Eventually([&] { return eu_.AllPublished() && us_.AllPublished(); }))
      << eu_.CountUnpublished() << ", " << us_.CountUnpublished() << '\n'
      << relay->log();
  EXPECT_EQ(Arrived(eu_), eu_.appended());
  EXPECT_EQ(Arrived(us_), us_.appended());
  EXPECT_EQ(Metric(*relay, eu_, "relay_restarts_total"), "0");
  EXPECT_EQ(relay->Stop().code, 0) << relay->log();
}

}  // namespace
}  // namespace sealane::testing
