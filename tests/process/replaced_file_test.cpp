// Protects events when the SQLite file of an outbox, an inbox or a journal is replaced under programs that keep
// running: by an older copy, by nothing, by another file. Each surviving event is published, keys keep their order,
// and no program says that it is ready, or that an event is published, about a file that is no longer there.

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sqlite3.h>

#include "core/wire.hpp"
#include "journal/journal_publisher.hpp"
#include "support/child_process.hpp"
#include "support/consume_place.hpp"
#include "support/courier.hpp"
#include "support/eventually.hpp"
#include "support/journal_file.hpp"
#include "support/running_program.hpp"
#include "support/running_relay.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using nlohmann::json;
using testing::CommandResult;
using testing::ConsumePlace;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::HttpGet;
using testing::ReadJournal;
using testing::RunningProgram;
using testing::RunningRelay;
using testing::RunSealane;
using testing::SqliteFile;
using testing::SqliteHandle;

/// What `.backup` and `.restore` of the sqlite3 shell do: all pages of one file into another, while others use both.
/// `when_busy` is for a user that stands still with a lock on one of them.
void CopyInto(
    const std::string& from, const std::string& to, const std::function<void()>& when_busy = [] {}) {
  const SqliteHandle source(from);
  const SqliteHandle target(to);
  sqlite3_busy_timeout(source.get(), 500);
  sqlite3_busy_timeout(target.get(), 500);
  sqlite3_backup* const backup = sqlite3_backup_init(target.get(), "main", source.get(), "main");
  ASSERT_NE(backup, nullptr) << sqlite3_errmsg(target.get());
  int stepped = SQLITE_OK;
  ASSERT_TRUE(Eventually([&] {
    stepped = sqlite3_backup_step(backup, -1);
    const bool busy = stepped == SQLITE_BUSY || stepped == SQLITE_LOCKED;
    if (busy) when_busy();
    return !busy;
  }));
  EXPECT_EQ(stepped, SQLITE_DONE);
  EXPECT_EQ(sqlite3_backup_finish(backup), SQLITE_OK);
}

void Remove(const std::string& path) {
  for (const char* const ending : {"-wal", "-shm", ""}) std::filesystem::remove(path + ending);
}

/// As the documents say: the write-ahead log of the old file goes first.
void PutInPlace(const std::string& copy, const std::string& path) {
  for (const char* const ending : {"-wal", "-shm"}) std::filesystem::remove(path + ending);
  std::filesystem::rename(copy, path);
}

/// The file with its log, under another name: programs that have it open keep it.
void MoveAway(const std::string& path, const std::string& to) {
  for (const char* const ending : {"-wal", "-shm", ""}) {
    if (std::filesystem::exists(path + ending)) std::filesystem::rename(path + ending, to + ending);
  }
}

int Status(const std::string& answer) {
  return answer.size() > 12 ? std::stoi(answer.substr(9, 3)) : 0;
}

class ServerChangeFiles : public ::testing::Test {
 protected:
  std::string folder() const { return place_.folder(); }
  std::string StorePath() const { return folder() + "/shop.db"; }
  std::string Store() const { return "sqlite:" + StorePath(); }
  std::string JournalPath() const { return folder() + "/journal.db"; }
  std::string CopyPath() const { return folder() + "/copy.db"; }

  void Migrate(const std::string& path) const {
    const CommandResult up = RunSealane({"migrate", "up", "--store", "sqlite:" + path});
    ASSERT_EQ(up.code, 0) << up.err;
  }
  void SetUp() override { Migrate(StorePath()); }

  /// Events n = first, first + 1, ... over seven keys in one transaction; the exit code.
  CommandResult TryEmit(int count, int first) const {
    std::string lines;
    for (int n = first; n < first + count; ++n) {
      lines +=
          fmt::format("{{\"topic\":\"orders\",\"key\":\"k{}\",\"type\":\"T\",\"payload\":{{\"n\":{}}}}}\n", n % 7, n);
    }
    return RunSealane({"emit", "--jsonl", "-", "--store", Store()}, lines);
  }
  void Emit(int count, int first) const {
    const CommandResult emitted = TryEmit(count, first);
    ASSERT_EQ(emitted.code, 0) << emitted.err;
  }

  RunningRelay StartRelay() const {
    return RunningRelay(folder(),
                        {"--store", Store(), "--broker", "journal:" + JournalPath(), "--listen", "127.0.0.1:0"},
                        {{"SEALANE_RELAY__LEASE", "3s"}});
  }

  using Numbers = std::map<std::string, std::vector<int>>;
  /// What the outbox file at the path has now, by key, in the order of commits.
  Numbers Committed() const {
    const SqliteHandle handle(StorePath());
    sqlite3_busy_timeout(handle.get(), 30'000);
    const std::string all = handle.TextOrThrow(
        "SELECT coalesce(json_group_array(json_array(key, json_extract(payload, '$.n'))), '[]')"
        " FROM (SELECT key, CAST(payload AS TEXT) AS payload FROM sealane_outbox ORDER BY seq)");
    Numbers committed;
    for (const json& row : json::parse(all)) committed[row[0]].push_back(row[1]);
    return committed;
  }
  /// What the journal at the path has now, first deliveries alone.
  Numbers Delivered() const {
    Numbers delivered;
    for (const auto& [key, values] : ReadJournal(JournalPath())) {
      std::set<int> seen;
      for (const std::string& value : values) {
        const int n = json::parse(value)["payload"]["n"];
        if (seen.insert(n).second) delivered[key].push_back(n);
      }
    }
    return delivered;
  }
  /// Empty when the journal has each event of the outbox, those of a key in the order of their first deliveries.
  /// Who opens a file while it is swapped under its writer may find a log that is being cut, and SQLite calls that a
  /// short read: a complaint like any other, which passes.
  std::string Complaint() const {
    try {
      return Compare(Committed(), Delivered());
    } catch (const std::runtime_error& unreadable) {
      return unreadable.what();
    }
  }
  static std::string Compare(const Numbers& committed, const Numbers& delivered) {
    for (const auto& [key, numbers] : committed) {
      const std::set<int> survivors(numbers.begin(), numbers.end());
      std::vector<int> arrived;
      if (const auto found = delivered.find(key); found != delivered.end()) arrived = found->second;
      std::erase_if(arrived, [&](int n) { return !survivors.contains(n); });
      if (arrived.size() < numbers.size()) {
        return fmt::format("{}: {} of {} events arrived", key, arrived.size(), numbers.size());
      }
      if (arrived != numbers) return fmt::format("{}: the order of first deliveries differs", key);
    }
    return {};
  }
  bool AllArrives() const {
    return Eventually([&] { return Complaint().empty(); }, std::chrono::seconds{60});
  }
  std::int64_t CountStatus(const std::string& status) const {
    const SqliteHandle handle(StorePath());
    sqlite3_busy_timeout(handle.get(), 30'000);
    return handle.Number("SELECT count(*) FROM sealane_outbox_status WHERE status = '" + status + "'");
  }
  static bool Ready(int port) { return Status(HttpGet(port, "/readyz")) == 200; }

  SqliteFile place_;
};

/// Appends small transactions, each by a program of its own, until it is told to end.
class Load {
 public:
  explicit Load(std::function<void(int)> append)
      : append_(std::move(append)), thread_([this](std::stop_token stop) {
          for (int n = 100'000; !stop.stop_requested(); n += 5) {
            const std::lock_guard lock(between_);
            append_(n);
            appended_ = n;
          }
        }) {}
  /// Runs `change` while no append is under way.
  void Between(const std::function<void()>& change) {
    const std::lock_guard lock(between_);
    change();
  }
  void AwaitMore(int appends) const {
    const int before = appended_;
    EXPECT_TRUE(Eventually([&] { return appended_ >= before + 5 * appends; }));
  }
  void Stop() {
    thread_.request_stop();
    thread_.join();
  }

 private:
  std::function<void(int)> append_;
  std::mutex between_;
  std::atomic<int> appended_{0};
  std::jthread thread_;
};

// ---- the outbox

TEST_F(ServerChangeFiles, AnOlderOutboxPutInPlaceIsPublishedFromItsOwnCursor) {
  const RunningRelay relay = StartRelay();
  const int port = relay.port();
  Emit(300, 1);
  ASSERT_TRUE(AllArrives()) << Complaint();
  CopyInto(StorePath(), CopyPath());
  Emit(300, 1'001);
  ASSERT_TRUE(AllArrives()) << Complaint();
  PutInPlace(CopyPath(), StorePath());
  // These get the numbers that the lost ones had.
  Emit(400, 2'001);
  EXPECT_TRUE(AllArrives()) << Complaint() << relay.log();
  EXPECT_THAT(relay.log(), HasSubstr("file_replaced"));
  EXPECT_TRUE(Eventually([&] { return Ready(port); }));
  EXPECT_TRUE(Eventually([&] { return CountStatus("PUBLISHED") == 700; }));
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
}

TEST_F(ServerChangeFiles, AnOlderOutboxRestoredIntoTheOpenFileIsPublishedFromItsOwnCursor) {
  const RunningRelay relay = StartRelay();
  const int port = relay.port();
  Emit(300, 1);
  ASSERT_TRUE(AllArrives()) << Complaint();
  CopyInto(StorePath(), CopyPath());
  Emit(300, 1'001);
  ASSERT_TRUE(AllArrives()) << Complaint();
  ASSERT_TRUE(Eventually([&] { return CountStatus("PUBLISHED") == 600; }));
  CopyInto(CopyPath(), StorePath());
  Emit(400, 2'001);
  EXPECT_TRUE(AllArrives()) << Complaint() << relay.log();
  EXPECT_TRUE(Eventually([&] { return Ready(port); }));
  EXPECT_TRUE(Eventually([&] { return CountStatus("PUBLISHED") == 700; }));
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
}

TEST_F(ServerChangeFiles, UnderLoadNothingOfTheSurvivingOutboxIsSkipped) {
  const char* const wanted = std::getenv("SEALANE_SERVER_CHANGE_SEEDS");
  const int seeds = wanted != nullptr ? std::atoi(wanted) : 2;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Remove(StorePath());
    Remove(JournalPath());
    Migrate(StorePath());
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const RunningRelay relay = StartRelay();
    Load load([&](int n) { (void)TryEmit(5, n); });
    for (int change = 0; change < 3; ++change) {
      load.AwaitMore(1 + static_cast<int>(random() % 20));
      CopyInto(StorePath(), CopyPath());
      load.AwaitMore(1 + static_cast<int>(random() % 20));
      load.Between([&] {
        if (random() % 2 == 0) {
          PutInPlace(CopyPath(), StorePath());
        } else {
          CopyInto(CopyPath(), StorePath());
          Remove(CopyPath());
        }
      });
    }
    load.AwaitMore(5);
    load.Stop();
    EXPECT_TRUE(AllArrives()) << Complaint() << relay.log();
    EXPECT_TRUE(Eventually([&] { return Ready(relay.port()); }));
    EXPECT_EQ(relay.Stop().code, 0) << relay.log();
  }
}

TEST_F(ServerChangeFiles, ADeletedOutboxIsAnErrorUntilItIsBack) {
  const RunningRelay relay = StartRelay();
  const int port = relay.port();
  Emit(100, 1);
  ASSERT_TRUE(AllArrives()) << Complaint();
  CopyInto(StorePath(), CopyPath());
  Remove(StorePath());
  EXPECT_TRUE(Eventually([&] { return !Ready(port); })) << HttpGet(port, "/readyz");
  EXPECT_TRUE(relay.Says("database_missing")) << relay.log();
  EXPECT_FALSE(std::filesystem::exists(StorePath())) << "a relay makes no outbox";
  EXPECT_EQ(Status(HttpGet(port, "/livez")), 200);
  PutInPlace(CopyPath(), StorePath());
  Emit(100, 1'001);
  EXPECT_TRUE(AllArrives()) << Complaint() << relay.log();
  EXPECT_TRUE(Eventually([&] { return Ready(port); }));
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
}

TEST_F(ServerChangeFiles, AnotherOutboxIsRefusedUntilTheRightOneIsBack) {
  const RunningRelay relay = StartRelay();
  const int port = relay.port();
  Emit(100, 1);
  ASSERT_TRUE(AllArrives()) << Complaint();
  Migrate(CopyPath());
  MoveAway(StorePath(), folder() + "/hidden.db");
  PutInPlace(CopyPath(), StorePath());
  Emit(50, 5'001);
  EXPECT_TRUE(Eventually([&] { return !Ready(port); })) << HttpGet(port, "/readyz");
  EXPECT_TRUE(relay.Says("another_outbox")) << relay.log();
  EXPECT_THAT(relay.LineWith({"another_outbox"}), HasSubstr("restart"));
  EXPECT_FALSE(Ready(port));
  EXPECT_EQ(CountStatus("PUBLISHED"), 0);
  EXPECT_THAT(Complaint(), HasSubstr("0 of"));

  Remove(StorePath());
  MoveAway(folder() + "/hidden.db", StorePath());
  Emit(100, 1'001);
  EXPECT_TRUE(AllArrives()) << Complaint() << relay.log();
  EXPECT_TRUE(Eventually([&] { return Ready(port); }));
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
}

// The lane is held all the same: the file is the same one, and its lease has not run out.
TEST_F(ServerChangeFiles, ATruncatedOutboxIsNotReady) {
  const RunningRelay relay = StartRelay();
  const int port = relay.port();
  Emit(100, 1);
  ASSERT_TRUE(AllArrives()) << Complaint();
  ASSERT_TRUE(Eventually([&] { return Ready(port); }));
  std::filesystem::resize_file(StorePath(), 0);
  EXPECT_TRUE(Eventually([&] { return !Ready(port); })) << HttpGet(port, "/readyz") << relay.log();
}

TEST_F(ServerChangeFiles, TheLogOfTheOldFileBesideTheNewOneStopsTheRelay) {
  const RunningRelay relay = StartRelay();
  const int port = relay.port();
  Emit(100, 1);
  ASSERT_TRUE(AllArrives()) << Complaint();
  CopyInto(StorePath(), CopyPath());
  CopyInto(CopyPath(), folder() + "/again.db");
  Emit(100, 1'001);
  ASSERT_TRUE(AllArrives()) << Complaint();
  ASSERT_GT(std::filesystem::file_size(StorePath() + "-wal"), 0U);
  std::filesystem::rename(CopyPath(), StorePath());  // SQLite would read the old log into it
  EXPECT_TRUE(relay.Says("foreign_wal")) << relay.log();
  EXPECT_THAT(relay.LineWith({"foreign_wal"}), HasSubstr("shop.db-wal"));
  EXPECT_TRUE(Eventually([&] { return !Ready(port); })) << HttpGet(port, "/readyz");
  PutInPlace(folder() + "/again.db", StorePath());
  Emit(100, 2'001);
  EXPECT_TRUE(AllArrives()) << Complaint() << relay.log();
  EXPECT_TRUE(Eventually([&] { return Ready(port); }));
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
}

TEST_F(ServerChangeFiles, TheDashboardLooksAtTheFileThatIsThereNow) {
  Emit(10, 1);
  CopyInto(StorePath(), CopyPath());
  Emit(20, 101);
  const RunningProgram dashboard(
      "dashboard", {SEALANE_TEST_BINARY, "dashboard", "--store", Store(), "--listen", "127.0.0.1:0"}, {}, folder());
  const int port = dashboard.PortAfter("http://127.0.0.1:");
  const auto pending = [&] {
    const std::string answer = HttpGet(port, "/api/v1/overview");
    const std::size_t body = answer.find("\r\n\r\n");
    const json overview = body == std::string::npos ? json::object() : json::parse(answer.substr(body + 4));
    return overview.contains("routes") && !overview.contains("problem") ? overview["routes"][0].value("pending", -1)
                                                                        : -1;
  };
  EXPECT_TRUE(Eventually([&] { return pending() == 30; })) << dashboard.said();
  PutInPlace(CopyPath(), StorePath());
  EXPECT_TRUE(Eventually([&] { return pending() == 10; })) << HttpGet(port, "/api/v1/overview");
  EXPECT_EQ(dashboard.Stop(), 0) << dashboard.said();
}

// ---- the journal

TEST_F(ServerChangeFiles, AWholeCopyOfTheJournalIsGoneOnWith) {
  const RunningRelay relay = StartRelay();
  Load load([&](int n) { (void)TryEmit(5, n); });
  for (int change = 0; change < 3; ++change) {
    load.AwaitMore(10);
    // It stands still somewhere in its work, maybe in the middle of a transaction.
    relay.Signal(SIGSTOP);
    // While it opens a journal it keeps everybody out.
    CopyInto(JournalPath(), CopyPath(), [&] {
      relay.Signal(SIGCONT);
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      relay.Signal(SIGSTOP);
    });
    PutInPlace(CopyPath(), JournalPath());
    relay.Signal(SIGCONT);
  }
  load.AwaitMore(10);
  load.Stop();
  EXPECT_TRUE(AllArrives()) << Complaint() << relay.log();
  EXPECT_TRUE(Eventually([&] { return Ready(relay.port()); })) << HttpGet(relay.port(), "/readyz");
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
}

class ServerChangeJournal : public ServerChangeFiles, public ::testing::WithParamInterface<std::string> {};

TEST_P(ServerChangeJournal, AJournalThatLacksWhatWasPublishedStopsTheRoute) {
  const std::string kind = GetParam();
  const RunningRelay relay = StartRelay();
  const int port = relay.port();
  Emit(100, 1);
  ASSERT_TRUE(AllArrives()) << Complaint();
  CopyInto(JournalPath(), CopyPath());
  Emit(100, 1'001);
  ASSERT_TRUE(AllArrives()) << Complaint();
  ASSERT_TRUE(Eventually([&] { return CountStatus("PUBLISHED") == 200; }));
  CopyInto(JournalPath(), folder() + "/whole.db");
  std::string code = "journal_went_back";
  if (kind == "PutInPlace") {
    PutInPlace(CopyPath(), JournalPath());
  } else if (kind == "Restored") {
    CopyInto(CopyPath(), JournalPath());
  } else if (kind == "Deleted") {
    Remove(JournalPath());
    code = "journal_missing";
  } else {
    Remove(CopyPath());
    Migrate(folder() + "/other.db");
    ASSERT_EQ(RunSealane({"relay", "--store", "sqlite:" + folder() + "/other.db", "--broker", "journal:" + CopyPath(),
                          "--until", "drained", "--timeout", "60s"})
                  .code,
              0);
    PutInPlace(CopyPath(), JournalPath());
    code = "another_journal";
  }
  Emit(100, 2'001);
  EXPECT_TRUE(Eventually([&] { return relay.Readiness("default", "main").value("code", "") == code; }))
      << HttpGet(port, "/readyz") << relay.log();
  EXPECT_FALSE(Ready(port)) << HttpGet(port, "/readyz");
  EXPECT_EQ(CountStatus("PUBLISHED"), 200) << "nothing is published meanwhile";

  if (kind == "Restored") {
    CopyInto(folder() + "/whole.db", JournalPath());
  } else {
    PutInPlace(folder() + "/whole.db", JournalPath());
  }
  EXPECT_TRUE(AllArrives()) << Complaint() << relay.log();
  EXPECT_TRUE(Eventually([&] { return Ready(port); })) << HttpGet(port, "/readyz");
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
}

INSTANTIATE_TEST_SUITE_P(ServerChangeFiles, ServerChangeJournal,
                         ::testing::Values("PutInPlace", "Restored", "Deleted", "Another"),
                         [](const auto& kind) { return kind.param; });

// ---- consumers

class ServerChangeConsumer : public ::testing::Test {
 protected:
  RunningProgram Start(const std::string& mode = "record") const {
    std::vector<std::string> command = {SEALANE_TEST_BINARY};
    const std::vector<std::string> arguments = place_.Arguments("c", {"--listen", "127.0.0.1:0", "--mode", mode});
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunningProgram("consumer", command, {}, place_.folder());
  }
  void Publish(const std::vector<Envelope>& events) {
    place_.Publish(events);
    all_.insert(all_.end(), events.begin(), events.end());
  }
  bool AllTakesEffect() const {
    return Eventually([&] { return place_.Complaint("c", all_, true).empty(); });
  }
  std::string JournalPath() const { return place_.folder() + "/journal.db"; }
  std::string StorePath() const { return place_.store_url().substr(std::string("sqlite:").size()); }
  std::string CopyPath() const { return place_.folder() + "/copy.db"; }
  /// Of keys that were not there before.
  static std::vector<Envelope> MoreEvents(const std::string& prefix) {
    std::vector<Envelope> events;
    for (std::int64_t version = 1; version <= 10; ++version) {
      for (int key = 0; key < 4; ++key) {
        events.push_back(testing::ChangeOf(fmt::format("{}{}", prefix, key), version));
      }
    }
    return events;
  }

  ConsumePlace place_{"sqlite_journal"};
  std::vector<Envelope> all_;
};

TEST_F(ServerChangeConsumer, ReadsOnFromAWholeCopyOfTheJournal) {
  const RunningProgram consumer = Start();
  Publish(MoreEvents("a"));
  ASSERT_TRUE(AllTakesEffect()) << place_.Complaint("c", all_, true) << consumer.said();
  CopyInto(JournalPath(), CopyPath());
  PutInPlace(CopyPath(), JournalPath());
  Publish(MoreEvents("b"));
  EXPECT_TRUE(AllTakesEffect()) << place_.Complaint("c", all_, true) << consumer.said();
  EXPECT_EQ(consumer.Stop(), 0) << consumer.said();
}

TEST_F(ServerChangeConsumer, AppliesToTheStoreThatIsThereNow) {
  const RunningProgram consumer = Start();
  Publish(MoreEvents("a"));
  ASSERT_TRUE(AllTakesEffect()) << place_.Complaint("c", all_, true) << consumer.said();
  CopyInto(StorePath(), CopyPath());
  PutInPlace(CopyPath(), StorePath());
  Publish(MoreEvents("b"));
  EXPECT_TRUE(AllTakesEffect()) << place_.Complaint("c", all_, true) << consumer.said();
  EXPECT_EQ(consumer.Stop(), 0) << consumer.said();
}

TEST_F(ServerChangeConsumer, ADeletedJournalIsNotReadyAndNotMadeAnew) {
  const RunningProgram consumer = Start();
  const int port = consumer.PortAfter("probes=http://127.0.0.1:");
  Publish(MoreEvents("a"));
  ASSERT_TRUE(AllTakesEffect()) << place_.Complaint("c", all_, true) << consumer.said();
  CopyInto(JournalPath(), CopyPath());
  Remove(JournalPath());
  EXPECT_TRUE(Eventually([&] { return Status(HttpGet(port, "/readyz")) == 503; })) << HttpGet(port, "/readyz");
  EXPECT_THAT(HttpGet(port, "/readyz"), HasSubstr("was removed while it was open"));
  EXPECT_FALSE(std::filesystem::exists(JournalPath()));
  PutInPlace(CopyPath(), JournalPath());
  Publish(MoreEvents("b"));
  EXPECT_TRUE(AllTakesEffect()) << place_.Complaint("c", all_, true) << consumer.said();
  EXPECT_TRUE(Eventually([&] { return Status(HttpGet(port, "/readyz")) == 200; })) << HttpGet(port, "/readyz");
  EXPECT_EQ(consumer.Stop(), 0) << consumer.said();
}

class ServerChangeConsumerModes : public ServerChangeConsumer, public ::testing::WithParamInterface<std::string> {
 protected:
  bool AllTakesEffectIn(const std::string& mode) const {
    return Eventually([&] { return place_.Complaint("c", all_, mode == "record").empty(); });
  }
};

INSTANTIATE_TEST_SUITE_P(Mode, ServerChangeConsumerModes, ::testing::Values("record", "offsets"),
                         [](const auto& mode) { return mode.param; });

// The effects of everything after the copy are gone with the old file, and nothing new comes that would let the
// consumer look.
TEST_P(ServerChangeConsumerModes, AnEarlierCopyOfTheStoreGetsWhatItLacks) {
  const std::string mode = GetParam();
  const RunningProgram consumer = Start(mode);
  const int port = consumer.PortAfter("probes=http://127.0.0.1:");
  Publish(MoreEvents("a"));
  ASSERT_TRUE(AllTakesEffectIn(mode)) << place_.Complaint("c", all_, true) << consumer.said();
  CopyInto(StorePath(), CopyPath());
  Publish(MoreEvents("b"));
  ASSERT_TRUE(AllTakesEffectIn(mode)) << place_.Complaint("c", all_, true) << consumer.said();
  PutInPlace(CopyPath(), StorePath());
  EXPECT_TRUE(AllTakesEffectIn(mode)) << place_.Complaint("c", all_, mode == "record") << consumer.said();
  Publish(MoreEvents("c"));
  EXPECT_TRUE(AllTakesEffectIn(mode)) << place_.Complaint("c", all_, mode == "record") << consumer.said();
  EXPECT_TRUE(Eventually([&] { return Status(HttpGet(port, "/readyz")) == 200; })) << HttpGet(port, "/readyz");
  EXPECT_EQ(consumer.Stop(), 0) << consumer.said();
}

// Offsets of one journal mean nothing in another, however many messages that has.
TEST_P(ServerChangeConsumerModes, AnotherJournalIsReadOnlyWhenAnOperatorSaysSo) {
  const std::string mode = GetParam();
  const RunningProgram consumer = Start(mode);
  const int port = consumer.PortAfter("probes=http://127.0.0.1:");
  Publish(MoreEvents("a"));
  ASSERT_TRUE(AllTakesEffectIn(mode)) << place_.Complaint("c", all_, true) << consumer.said();
  {
    const std::vector<Envelope> others = testing::ChangesOf(8, 30);
    const auto publisher =
        ValueOrThrow(OpenJournalPublisher({.path = CopyPath(), .partitions = 2}, SystemClock::Instance()));
    testing::Courier courier(*publisher);
    for (const Envelope& event : others) {
      const WireMessage message = ToWire(event, WireProfile::kEnvelope);
      courier.Send(place_.topic(), message.key, message.value, message.headers);
    }
    courier.CollectAll();
    all_.insert(all_.end(), others.begin(), others.end());
  }
  SqliteHandle(CopyPath()).Execute("PRAGMA wal_checkpoint(TRUNCATE)");
  const std::int64_t before = place_.CountEffects("c");
  PutInPlace(CopyPath(), JournalPath());
  const auto positions = [&] {
    return RunSealane({"inbox", "position", "--consumer", "c", "-o", "json", "--store", place_.store_url()}).out;
  };
  EXPECT_TRUE(Eventually([&] { return positions().find("topic_recreated") != std::string::npos; }))
      << positions() << consumer.said();
  // At first it is not ready because the file was replaced.
  EXPECT_TRUE(Eventually([&] {
    const std::string ready = HttpGet(port, "/readyz");
    return Status(ready) == 503 && ready.find("sealane inbox resume") != std::string::npos;
  })) << HttpGet(port, "/readyz");
  EXPECT_EQ(place_.CountEffects("c"), before) << "nothing of the other journal is applied";
  const CommandResult resumed =
      RunSealane({"inbox", "resume", "--consumer", "c", "--topic", place_.topic(), "--from", "beginning", "--reason",
                  "another journal", "--store", place_.store_url()},
                 {}, {{"USER", "ann"}});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(AllTakesEffectIn(mode)) << place_.Complaint("c", all_, mode == "record") << consumer.said();
  EXPECT_TRUE(Eventually([&] { return Status(HttpGet(port, "/readyz")) == 200; })) << HttpGet(port, "/readyz");
  EXPECT_EQ(consumer.Stop(), 0) << consumer.said();
}

}  // namespace
}  // namespace sealane
