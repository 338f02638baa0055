// Protects the real executable: bytes in are bytes out, through pipes, on SQLite and PostgreSQL, and Ctrl-C.

#include <csignal>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/child_process.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using nlohmann::json;
using testing::ChildProcess;
using testing::CommandResult;
using ::testing::HasSubstr;
using testing::RunSealane;
using testing::ScratchDatabase;
using testing::SqliteFile;

using Words = std::vector<std::string>;

std::string AllBytes() {
  std::string bytes;
  for (int repeat = 0; repeat < 300; ++repeat) {
    for (int value = 0; value < 256; ++value) bytes.push_back(static_cast<char>(value));
  }
  return bytes;
}

/// The life of an event on one store, as a person would type it.
void ExpectRoundTrip(const std::string& store) {
  const auto run = [&](Words words, const std::string& input = {}) {
    words.insert(words.end(), {"--store", store});
    return RunSealane(words, input);
  };
  EXPECT_EQ(run({"migrate", "status"}).code, 3);
  const int before = run({"messages", "list"}).code;
  EXPECT_EQ(before, store.starts_with("sqlite:") ? 18 : 17) << "no file, or no tables yet";
  const CommandResult up = run({"migrate", "up"});
  ASSERT_EQ(up.code, 0) << up.err;
  EXPECT_EQ(run({"migrate", "up"}).code, 0);
  EXPECT_EQ(run({"migrate", "status"}).code, 0);

  const std::string bytes = AllBytes();
  const CommandResult emitted = run({"emit", "--topic", "blobs", "--key", "k", "--type", "Blob", "--content-type",
                                     "application/octet-stream", "--payload", "-"},
                                    bytes);
  ASSERT_EQ(emitted.code, 0) << emitted.err;
  const std::string id = emitted.out.substr(0, 36);
  EXPECT_EQ(emitted.out, id + "\n");
  EXPECT_TRUE(run({"messages", "get", id, "--raw"}).out == bytes) << "the payload changed on its way";

  const std::string odd = "{ \"b\":1.0, \"a\" : 1e2,\t\"b\":2 }";
  const CommandResult text =
      run({"emit", "--topic", "t", "--key", "k", "--type", "T", "--payload", odd, "-o", "json"});
  ASSERT_EQ(text.code, 0) << text.err;
  const std::string text_id = json::parse(text.out)["event_id"];
  EXPECT_EQ(run({"messages", "get", text_id, "--raw"}).out, odd);

  const CommandResult listed = run({"messages", "list", "-o", "json"});
  const json messages = json::parse(listed.out)["messages"];
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0]["id"], text_id);
  EXPECT_EQ(messages[1]["id"], id);
  EXPECT_EQ(messages[1]["payload_size"], bytes.size());
  EXPECT_EQ(messages[0]["status"], "PENDING");
  EXPECT_THAT(run({"messages", "list"}).out, HasSubstr(id));

  const std::string lines = R"({"topic":"t","key":"a","type":"T","payload":{"n":1}})"
                            "\n"
                            R"({"topic":"t","key":"b","type":"T","payload":{"n":2}})";
  EXPECT_EQ(run({"emit", "--jsonl", "-"}, lines).code, 0);
  EXPECT_EQ(run({"emit", "--jsonl", "-"}, lines + "\n{\"topic\":\"t\"}").code, 65);
  const CommandResult jsonl = run({"messages", "list", "-o", "jsonl"});
  EXPECT_EQ(std::count(jsonl.out.begin(), jsonl.out.end(), '\n'), 4);

  const Words fixed = {"emit",
                       "--topic",
                       "t",
                       "--key",
                       "k",
                       "--type",
                       "T",
                       "--payload",
                       "1",
                       "--id",
                       "018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f"};
  EXPECT_EQ(run(fixed).code, 0);
  EXPECT_EQ(run(fixed).code, 65);
}

TEST(RoundTrip, KeepsEveryByteOnSqlite) {
  const SqliteFile file;
  ExpectRoundTrip("sqlite:" + file.path());
}

TEST(RoundTrip, KeepsEveryByteOnPostgres) {
  const ScratchDatabase database;
  ExpectRoundTrip(database.url());
}

TEST(RoundTrip, WorksInAnotherPostgresSchema) {
  const ScratchDatabase database;
  const auto run = [&](Words words) {
    words.insert(words.end(), {"--store", database.url(), "--schema", "events"});
    return RunSealane(words);
  };
  ASSERT_EQ(run({"migrate", "up"}).code, 0);
  EXPECT_EQ(run({"emit", "--topic", "t", "--key", "k", "--type", "T", "--payload", "1"}).code, 0);
  EXPECT_EQ(json::parse(run({"messages", "list", "-o", "json"}).out)["messages"].size(), 1U);
  EXPECT_EQ(RunSealane({"messages", "list", "--store", database.url()}).code, 17);
}

TEST(Interrupt, EndsWith130AndSaysWhatIsLeft) {
  const SqliteFile file;
  file.Migrate();
  const Words command = {
      SEALANE_TEST_BINARY, "emit", "--store", file.path(), "--topic", "t", "--key", "k", "--type", "T",
      "--payload",         "-"};
  ChildProcess child(command, {}, "/");
  child.FeedAndAwait("{");
  child.Signal(SIGINT);
  const CommandResult result = child.Finish();
  EXPECT_EQ(result.code, 130);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("interrupted; nothing was"));
  EXPECT_EQ(RunSealane({"messages", "list", "--store", file.path()}).out, "");
}

TEST(Interrupt, IsAJsonErrorWhenJsonIsAskedFor) {
  const SqliteFile file;
  file.Migrate();
  ChildProcess child({SEALANE_TEST_BINARY, "emit", "--store", file.path(), "--jsonl", "-", "-o", "json"}, {}, "/");
  child.FeedAndAwait("{");
  child.Signal(SIGINT);
  const CommandResult result = child.Finish();
  EXPECT_EQ(result.code, 130);
  EXPECT_EQ(json::parse(result.err)["error"]["code"], "interrupted");
}

TEST(Output, FailureIsNoticed) {
  const CommandResult result =
      ChildProcess({"/bin/sh", "-c", SEALANE_TEST_BINARY " version > /dev/full"}, {}, "/").Finish();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot write to standard output"));
}

TEST(Configuration, IsFoundInTheWorkingFolder) {
  const SqliteFile file;
  file.Migrate();
  std::ofstream(file.folder() + "/sealane.toml") << "[store]\nurl = \"sqlite:./store.db\"\n";
  EXPECT_EQ(RunSealane({"messages", "list"}, {}, {}, file.folder()).code, 0);
  std::ofstream(file.folder() + "/sealane.toml") << "[store]\nurl = \"sqlite:./store.db\"\nconect_timeout = \"5s\"\n";
  const CommandResult result = RunSealane({"messages", "list"}, {}, {}, file.folder());
  EXPECT_EQ(result.code, 78);
  EXPECT_THAT(result.err, HasSubstr("./sealane.toml:3: unknown key `store.conect_timeout`"));
  EXPECT_THAT(result.err, HasSubstr("did you mean `store.connect_timeout`?"));
}

}  // namespace
}  // namespace sealane
