// Protects the embedded broker's writing side: many processes at once, kill -9, a full disk, a writer in the way and
// files that are something else never cost, double or tear a message.

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/lane.hpp"
#include "journal/journal_publisher.hpp"
#include "journal/journal_reader.hpp"
#include "support/courier.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using std::chrono::milliseconds;

class JournalPublish : public ::testing::Test {
 protected:
  JournalOptions options() const { return {.path = file_.folder() + "/journal.db", .partitions = 4}; }
  std::unique_ptr<Publisher> Open(const JournalOptions& options) {
    return ValueOrThrow(OpenJournalPublisher(options, SystemClock::Instance()));
  }
  std::unique_ptr<Publisher> Open() { return Open(options()); }

  /// All messages of a topic, partition by partition. Fails the test when offsets have a gap.
  std::vector<JournalMessage> Messages(const std::string& topic) const {
    const auto reader = ValueOrThrow(JournalReader::Open(options(), SystemClock::Instance()));
    std::vector<JournalMessage> all;
    for (const JournalPartition& partition : ValueOrThrow(reader->Partitions(topic))) {
      std::int64_t next = 0;
      while (true) {
        const auto some = ValueOrThrow(reader->Read(topic, partition.partition, next));
        if (some.empty()) break;
        for (const JournalMessage& message : some) {
          EXPECT_EQ(message.offset, next) << "a gap in partition " << partition.partition;
          next = message.offset + 1;
          all.push_back(message);
        }
      }
      EXPECT_EQ(partition.next_offset, next);
    }
    return all;
  }
  std::vector<std::string> ValuesOf(const std::string& topic, const std::string& key) const {
    std::vector<std::string> values;
    for (const JournalMessage& message : Messages(topic)) {
      if (message.key == key) values.push_back(message.value);
    }
    return values;
  }
  void ExpectSound() const {
    EXPECT_EQ(SqliteHandle(options().path, SQLITE_OPEN_READWRITE).Text("PRAGMA integrity_check"), "ok");
  }

 private:
  SqliteFile file_;
};

/// Runs `work` in a process of its own, which ends without cleaning up.
pid_t InProcess(const std::function<void()>& work) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  work();
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

int StatusOf(pid_t pid) {
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}

TEST_F(JournalPublish, KeepsEveryFieldAndTheOrderOfAKey) {
  const auto publisher = Open();
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "first", {{"event-id", "x"}, {"note", "Gr\xc3\xbc\xc3\x9f\x65 \"\n"}});
  courier.Send("orders", "o-1", std::string("\0\xff second", 9));
  courier.Send("mails", "o-1", "elsewhere");
  courier.CollectAll();

  const auto messages = Messages("orders");
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].partition, LaneOf(LaneHash("o-1"), 4));
  EXPECT_EQ(messages[0].headers, (Headers{{"event-id", "x"}, {"note", "Gr\xc3\xbc\xc3\x9f\x65 \"\n"}}));
  EXPECT_EQ(messages[0].key, "o-1");
  EXPECT_EQ(messages[0].value, "first");
  EXPECT_FALSE(messages[0].event_id.is_nil());
  EXPECT_EQ(messages[1].value, std::string("\0\xff second", 9));
  EXPECT_EQ(messages[1].offset, 1);
  EXPECT_EQ(Messages("mails").size(), 1U);
}

TEST_F(JournalPublish, IsSharedByManyProcesses) {
  constexpr int kProcesses = 4;
  constexpr int kMessages = 300;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(InProcess([&] {
      const auto publisher = Open();
      Courier courier(*publisher);
      for (int i = 0; i < kMessages; ++i) {
        courier.Send("orders", fmt::format("key-{}", process), std::to_string(i));
        if (i % 10 == 9) courier.CollectAll();
      }
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(StatusOf(child), 0);

  std::vector<std::string> expected;
  for (int i = 0; i < kMessages; ++i) expected.push_back(std::to_string(i));
  for (int process = 0; process < kProcesses; ++process) {
    EXPECT_EQ(ValuesOf("orders", fmt::format("key-{}", process)), expected);
  }
  ExpectSound();
}

TEST_F(JournalPublish, IsSharedByManyThreadsThatOpenItAtOnce) {
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([this, thread] {
      const auto publisher = Open();
      Courier courier(*publisher);
      for (int i = 0; i < 50; ++i) courier.Send(fmt::format("topic-{}", i % 3), std::to_string(thread), "x");
      courier.CollectAll();
    });
  }
  threads.clear();
  EXPECT_EQ(Messages("topic-0").size() + Messages("topic-1").size() + Messages("topic-2").size(), 300U);
  ExpectSound();
}

// 1. A process publishes batches of seven messages, one after the other, and is killed at some moment.
// 2. What is there then is whole batches, each message complete, and the next process goes on behind them.
TEST_F(JournalPublish, HoldsWholeBatchesAfterKill) {
  constexpr int kBatch = 7;
  constexpr int kRounds = 12;
  Open();
  std::size_t seen = 0;
  for (int round = 0; round < kRounds; ++round) {
    const pid_t child = InProcess([&] {
      const auto publisher = Open();
      Courier courier(*publisher);
      while (true) {
        for (int i = 0; i < kBatch; ++i) courier.Send("orders", std::to_string(i), std::string(5'000, 'x'));
        courier.CollectAll();
      }
    });
    const auto reader = ValueOrThrow(JournalReader::Open(options(), SystemClock::Instance()));
    const auto written = [&] {
      std::int64_t count = 0;
      for (const auto& partition : ValueOrThrow(reader->Partitions("orders"))) count += partition.next_offset;
      return static_cast<std::size_t>(count);
    };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (written() < seen + static_cast<std::size_t>(round) * 3 + 1 &&
           std::chrono::steady_clock::now() < deadline) {
      ValueOrThrow(reader->AwaitChange(milliseconds{1'000}, {}));
    }
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    EXPECT_TRUE(WIFSIGNALED(StatusOf(child)));

    const auto messages = Messages("orders");
    EXPECT_GT(messages.size(), seen);
    EXPECT_EQ(messages.size() % kBatch, 0U);
    for (const JournalMessage& message : messages) EXPECT_EQ(message.value.size(), 5'000U);
    seen = messages.size();
  }
  ExpectSound();
}

TEST_F(JournalPublish, WaitsForAWriterInTheWayAndSaysSo) {
  JournalOptions impatient = options();
  impatient.busy_patience = milliseconds{50};
  const auto publisher = Open(impatient);
  Courier courier(*publisher);
  const SqliteHandle other(options().path, SQLITE_OPEN_READWRITE);
  other.Execute("BEGIN IMMEDIATE");
  courier.Send("orders", "o-1", "patient");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (publisher->health().state == PublisherHealth::State::kReady && std::chrono::steady_clock::now() < deadline) {
    courier.Collect(milliseconds{20});
  }
  EXPECT_TRUE(courier.deliveries().empty());
  ASSERT_EQ(publisher->health().state, PublisherHealth::State::kUnreachable);
  EXPECT_EQ(publisher->health().problem->code(), "journal_busy");

  other.Execute("ROLLBACK");
  courier.CollectAll();
  EXPECT_EQ(publisher->health().state, PublisherHealth::State::kReady);
  EXPECT_EQ(ValuesOf("orders", "o-1"), std::vector<std::string>{"patient"});
}

// A caller's clock may stand still; whoever is in the way goes away in real time.
TEST_F(JournalPublish, OpeningWaitsForAReaderInTheWayInRealTime) {
  const SqliteHandle other(options().path);
  other.Execute("BEGIN");
  EXPECT_EQ(other.Number("SELECT count(*) FROM sqlite_schema"), 0);
  std::jthread reader([&] {
    SystemClock::Instance().SleepFor(milliseconds{100}, {});
    other.Execute("COMMIT");
  });
  ManualClock standing;
  const auto publisher = ValueOrThrow(OpenJournalPublisher(options(), standing));
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "patient");
  courier.CollectAll();
  EXPECT_EQ(ValuesOf("orders", "o-1"), std::vector<std::string>{"patient"});
}

/// While it lives, files of this process cannot grow beyond `bytes`: what a full disk looks like.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

TEST_F(JournalPublish, KeepsMessagesWhileTheDiskIsFull) {
  const auto publisher = Open();
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "before");
  courier.CollectAll();
  {
    const FullDisk full(200'000);
    courier.Send("orders", "o-1", std::string(1'000'000, 'x'));
    courier.Send("orders", "o-1", "after");
    courier.Collect(milliseconds{20});
    EXPECT_EQ(courier.deliveries().size(), 1U);
    ASSERT_EQ(publisher->health().state, PublisherHealth::State::kUnreachable);
    EXPECT_THAT(publisher->health().problem->code(), ::testing::AnyOf("journal_full", "journal_io_error"));
  }
  courier.CollectAll();
  EXPECT_EQ(publisher->health().state, PublisherHealth::State::kReady);
  EXPECT_EQ(ValuesOf("orders", "o-1"), (std::vector<std::string>{"before", std::string(1'000'000, 'x'), "after"}));
  ExpectSound();
}

TEST_F(JournalPublish, RejectsOnlyWhatItCanNeverTake) {
  JournalOptions small = options();
  small.message_max_bytes = 2'000;
  const auto publisher = Open(small);
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "first");
  const auto too_large = courier.Send("orders", "o-1", std::string(2'000, 'x'));
  const auto nowhere = courier.Send("", "o-1", "x");
  const auto behind = courier.Send("orders", "o-1", "behind");
  courier.Send("orders", "o-2", "beside");
  courier.CollectAll();
  courier.Send("orders", "o-1", "last");
  courier.CollectAll();
  EXPECT_EQ(courier.DeliveryOf(too_large).failure, FailureClass::kRejected);
  EXPECT_EQ(courier.DeliveryOf(too_large).code, "message_too_large");
  EXPECT_EQ(courier.DeliveryOf(nowhere).code, "invalid_topic");
  EXPECT_EQ(courier.DeliveryOf(behind).code, "held_back") << "it would have overtaken";
  EXPECT_EQ(courier.DeliveryOf(behind).failure, FailureClass::kOutage);
  EXPECT_EQ(ValuesOf("orders", "o-1"), (std::vector<std::string>{"first", "last"}));
  EXPECT_EQ(ValuesOf("orders", "o-2"), (std::vector<std::string>{"beside"}));
}

TEST_F(JournalPublish, MeasuresKeyValueAndHeadersAlone) {
  JournalOptions small = options();
  small.message_max_bytes = 100;
  const auto publisher = Open(small);
  Courier courier(*publisher);
  const std::string topic(200, 't');
  const auto fits = courier.Send(topic, "12345", std::string(85, 'x'), {{"abc", "defghij"}});
  const auto too_large = courier.Send(topic, "12345", std::string(86, 'x'), {{"abc", "defghij"}});
  courier.CollectAll();
  EXPECT_EQ(courier.DeliveryOf(fits).status, DeliveryStatus::kPersisted) << courier.DeliveryOf(fits).message;
  EXPECT_EQ(courier.DeliveryOf(too_large).code, "message_too_large");
  EXPECT_THAT(courier.DeliveryOf(too_large).message, ::testing::HasSubstr("101 bytes"));
}

// A reader that stays in its transaction keeps the write-ahead log from being recycled for as long as it lives.
TEST_F(JournalPublish, AReaderThatMetABadRowHoldsNothingUp) {
  const auto publisher = Open();
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "x");
  courier.CollectAll();
  SqliteHandle other(options().path);
  other.Execute("UPDATE journal_messages SET headers = 'not json'");
  const auto reader = ValueOrThrow(JournalReader::Open(options(), SystemClock::Instance()));
  const auto partitions = ValueOrThrow(reader->Partitions("orders"));
  std::size_t bad = 0;
  for (const JournalPartition& partition : partitions) {
    const auto read = reader->Read("orders", partition.partition, 0);
    if (read) continue;
    EXPECT_EQ(read.error().code(), "journal_corrupt");
    ++bad;
    break;
  }
  ASSERT_EQ(bad, 1U);
  courier.Send("orders", "o-1", "y");
  courier.CollectAll();
  EXPECT_EQ(other.Text("PRAGMA wal_checkpoint(TRUNCATE)"), "0") << "not busy";
}

// What was published went with the file. A new one in its place would hide that.
TEST_F(JournalPublish, WaitsForAFileThatIsGone) {
  const auto publisher = Open();
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "first");
  courier.CollectAll();
  const std::string copy = options().path + ".copy";
  SqliteHandle(options().path).Execute("VACUUM INTO '" + copy + "'");
  for (const auto* ending : {"", "-wal", "-shm"}) std::filesystem::remove(options().path + ending);
  courier.Send("orders", "o-1", "second");
  std::vector<Delivery> deliveries;
  publisher->Collect(deliveries, milliseconds{50});
  EXPECT_TRUE(deliveries.empty());
  ASSERT_TRUE(publisher->health().problem);
  EXPECT_EQ(publisher->health().problem->code(), "journal_missing");
  EXPECT_FALSE(std::filesystem::exists(options().path));
  std::filesystem::rename(copy, options().path);
  courier.CollectAll();
  EXPECT_EQ(ValuesOf("orders", "o-1"), (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(publisher->health().state, PublisherHealth::State::kReady);
}

// The old file has the message, and no reader will ever see it there.
TEST_F(JournalPublish, DoesNotConfirmWhatWentIntoAReplacedFile) {
  const auto publisher = Open();
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "first");
  courier.CollectAll();
  const std::string copy = options().path + ".copy";
  SqliteHandle(options().path).Execute("VACUUM INTO '" + copy + "'");
  courier.Send("orders", "o-1", "second");
  for (const auto* ending : {"-wal", "-shm"}) std::filesystem::remove(options().path + ending);
  std::filesystem::rename(copy, options().path);
  courier.CollectAll();
  EXPECT_EQ(ValuesOf("orders", "o-1"), (std::vector<std::string>{"first", "second"}));
}

TEST_F(JournalPublish, HasAnIdentityThatACopyKeepsAndANewJournalDoesNot) {
  const auto birth = [&] { return ValueOrThrow(JournalReader::Open(options(), SystemClock::Instance()))->Birth(); };
  Open();
  const std::string first = birth();
  EXPECT_THAT(first, ::testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_EQ(birth(), first);
  const std::string copy = options().path + ".copy";
  SqliteHandle(options().path).Execute("VACUUM INTO '" + copy + "'");
  for (const auto* ending : {"", "-wal", "-shm"}) std::filesystem::remove(options().path + ending);
  Open();
  EXPECT_NE(birth(), first);
  for (const auto* ending : {"", "-wal", "-shm"}) std::filesystem::remove(options().path + ending);
  std::filesystem::rename(copy, options().path);
  EXPECT_EQ(birth(), first);

  // A journal that an earlier release made gets one when it is opened.
  SqliteHandle(options().path).Execute("DROP TABLE journal_identity");
  const std::string given = birth();
  EXPECT_THAT(given, ::testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_EQ(birth(), given);
}

TEST_F(JournalPublish, RefusesFilesThatAreSomethingElse) {
  const auto code_of = [&] {
    const auto opened = OpenJournalPublisher(options(), SystemClock::Instance());
    EXPECT_FALSE(opened);
    EXPECT_EQ(opened.error().kind(), ErrorKind::kMisconfigured) << opened.error().ToString();
    return opened ? "" : opened.error().code();
  };
  std::ofstream(options().path) << std::string(5'000, 'x');
  EXPECT_EQ(code_of(), "not_a_journal");
  std::filesystem::remove(options().path);
  SqliteHandle(options().path).Execute("CREATE TABLE theirs (a)");
  EXPECT_EQ(code_of(), "not_a_journal");
  std::filesystem::remove(options().path);
  Open();
  SqliteHandle(options().path).Execute("PRAGMA user_version=99");
  EXPECT_EQ(code_of(), "journal_format_unsupported");

  EXPECT_EQ(OpenJournalPublisher({.path = ""}, SystemClock::Instance()).error().code(), "journal_unreachable");
  EXPECT_EQ(OpenJournalPublisher({.path = "/nowhere/journal.db"}, SystemClock::Instance()).error().code(),
            "journal_unreachable");
  EXPECT_EQ(OpenJournalPublisher({.path = "x", .partitions = 0}, SystemClock::Instance()).error().code(),
            "invalid_partitions");
}

TEST_F(JournalPublish, ReaderIsWokenByAnotherProcess) {
  Open();
  const auto reader = ValueOrThrow(JournalReader::Open(options(), SystemClock::Instance()));
  ValueOrThrow(reader->AwaitChange(milliseconds{0}, {}));
  EXPECT_FALSE(ValueOrThrow(reader->AwaitChange(milliseconds{5}, {})));
  const pid_t child = InProcess([&] {
    const auto publisher = Open();
    Courier courier(*publisher);
    courier.Send("orders", "o-1", "x");
    courier.CollectAll();
  });
  EXPECT_TRUE(ValueOrThrow(reader->AwaitChange(milliseconds{30'000}, {})));
  EXPECT_EQ(StatusOf(child), 0);
  EXPECT_EQ(ValueOrThrow(reader->Topics()), std::vector<std::string>{"orders"});
}

TEST_F(JournalPublish, ReaderTakesBoundedPages) {
  const auto publisher = Open();
  Courier courier(*publisher);
  for (int i = 0; i < 10; ++i) courier.Send("orders", "o-1", std::string(100, 'x'));
  courier.CollectAll();
  const auto reader = ValueOrThrow(JournalReader::Open(options(), SystemClock::Instance()));
  const std::int32_t partition = LaneOf(LaneHash("o-1"), 4);
  EXPECT_EQ(ValueOrThrow(reader->Read("orders", partition, 4, {.messages_max = 3})).size(), 3U);
  EXPECT_EQ(ValueOrThrow(reader->Read("orders", partition, 4, {.messages_max = 3})).front().offset, 4);
  EXPECT_EQ(ValueOrThrow(reader->Read("orders", partition, 0, {.messages_max = 9, .bytes_max = 150})).size(), 2U);
  EXPECT_EQ(ValueOrThrow(reader->Read("orders", partition, 0, {.messages_max = 9, .bytes_max = 1})).size(), 1U);
  EXPECT_TRUE(ValueOrThrow(reader->Read("orders", partition, 10)).empty());
  EXPECT_TRUE(ValueOrThrow(reader->Read("orders", 99, 0)).empty());
  EXPECT_TRUE(ValueOrThrow(reader->Read("nothing", 0, 0)).empty());
}

}  // namespace
}  // namespace sealane
