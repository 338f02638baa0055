// Protects the table of exit codes in docs/cli.md: scripts rely on what each command ends with when something that it
// was asked for does not exist, the store or the broker is away, or the input is wrong.

#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/child_process.hpp"
#include "support/http_receiver.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kId = "018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f";
// A port of this machine on which nothing can listen for long: tcpmux, which needs rights to take.
constexpr const char* kNobody = "127.0.0.1:1";

struct Row {
  Words words;
  int exit = 0;
  std::string code;  // of the error document; empty: there is none
};

class ExitCodes : public ::testing::Test {
 protected:
  void SetUp() override {
    file_.Migrate();
    const CommandResult emitted =
        RunSealane({"emit", "--topic", "orders", "--key", "k", "--type", "T", "--payload", "{}", "--store", Store()});
    ASSERT_EQ(emitted.code, 0) << emitted.err;
  }
  std::string Store() const { return "sqlite:" + file_.path(); }

  void Check(const std::vector<Row>& rows) const {
    for (const Row& row : rows) {
      Words words = row.words;
      words.insert(words.end(), {"-o", "json"});
      const CommandResult result = RunSealane(words, {}, {{"USER", "ann"}}, file_.folder());
      const std::string shown = fmt::format("sealane {}\n{}{}", fmt::join(row.words, " "), result.out, result.err);
      EXPECT_EQ(result.code, row.exit) << shown;
      if (row.code.empty()) continue;
      // The last line of standard error is the document.
      const std::string text = result.err.substr(0, result.err.find_last_not_of('\n') + 1);
      const json document = json::parse(text.substr(text.rfind('\n') + 1), nullptr, false);
      if (!document.contains("error")) {
        ADD_FAILURE() << "no error document: " << shown;
        continue;
      }
      EXPECT_EQ(document["error"]["code"], row.code) << shown;
    }
  }

  SqliteFile file_;
};

TEST_F(ExitCodes, WhatDoesNotExistIsFour) {
  std::vector<Row> rows = {
      {{"messages", "get", kId}, 4, "not_found"},
      {{"dead", "show", kId}, 4, "not_found"},
      {{"inbox", "show", kId}, 4, "not_found"},
      {{"tasks", "show", kId}, 4, "not_found"},
      {{"tenants", "list", "--route", "nosuch"}, 4, "unknown_route"},
  };
  for (const Words& change : std::vector<Words>{{"dead", "retry", kId},
                                                {"dead", "discard", kId},
                                                {"dead", "skip", kId},
                                                {"inbox", "retry", kId},
                                                {"inbox", "skip", kId},
                                                {"tasks", "retry", kId},
                                                {"tasks", "discard", kId}}) {
    rows.push_back({change, 4, "not_found"});
    rows.back().words.insert(rows.back().words.end(), {"--reason", "test"});
  }
  for (const Words& change : std::vector<Words>{{"route", "pause", "nosuch"},
                                                {"route", "resume", "nosuch"},
                                                {"tenants", "pause", "acme", "--route", "nosuch"},
                                                {"tenants", "resume", "acme", "--route", "nosuch"},
                                                {"tenants", "limit", "acme", "5", "--route", "nosuch"},
                                                {"tenants", "weight", "acme", "5", "--route", "nosuch"}}) {
    rows.push_back({change, 4, "unknown_route"});
    rows.back().words.insert(rows.back().words.end(), {"--reason", "test"});
  }
  for (const std::string change : {"pause", "resume"}) {
    rows.push_back({{"tasks", change, "nosuch", "--reason", "test"}, 4, "unknown_target"});
  }
  for (Row& row : rows) row.words.insert(row.words.end(), {"--store", Store()});
  Check(rows);
}

TEST_F(ExitCodes, ABrokerThatCannotBeUsedIsEleven) {
  HttpReceiver busy;
  busy.SetHandler([](const HttpReceiver::Request&) { return HttpReceiver::Answer{.status = 503}; });
  std::vector<Row> rows = {
      {{"relay", "--broker", fmt::format("kafka://{}", kNobody)}, 11, "broker_unreachable"},
      {{"relay", "--broker", fmt::format("http://{}/", kNobody)}, 11, "receiver_unreachable"},
      {{"relay", "--broker", busy.url("/")}, 11, "http_503"},
  };
  for (Row& row : rows) {
    row.words.insert(row.words.end(), {"--until", "drained", "--timeout", "4s", "--store", Store()});
  }
  Check(rows);
}

TEST_F(ExitCodes, TheStoreTheInputAndTheConfigurationHaveTheirOwn) {
  // Right, so that nothing but the retention is wrong; --until ends a consumer that takes it.
  std::ofstream(file_.folder() + "/x.sql") << "SELECT :key;\n";
  std::ofstream(file_.folder() + "/wrong.toml") << "[store]\nulr = \"x\"\n";
  const std::string missing = "sqlite:" + file_.folder() + "/missing.db";
  std::ofstream(file_.folder() + "/empty.db");
  const Words emit = {"emit", "--topic", "orders", "--key", "k", "--type", "T", "--payload", "{}", "--store"};
  const auto emit_to = [&](const std::string& store, Words more = {}) {
    Words words = emit;
    words.push_back(store);
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::string away = fmt::format("postgres://u@{}/db", kNobody);
  Check({
      {emit_to(away), 10, "store_unreachable"},
      {{"relay", "--until", "drained", "--timeout", "2s", "--broker", "null:", "--store", away}, 10, ""},
      {{"messages", "list", "--store", away}, 10, "store_unreachable"},
      {{"dead", "list", "--store", away}, 10, "store_unreachable"},
      {{"tasks", "list", "--store", away}, 10, "store_unreachable"},
      {{"inbox", "status", "--store", away}, 10, "store_unreachable"},
      {{"migrate", "status", "--store", away}, 10, "store_unreachable"},
      {emit_to(missing), 18, "database_missing"},
      {emit_to("sqlite:" + file_.folder() + "/empty.db"), 17, "schema_missing"},
      {{"migrate", "status", "--store", "sqlite:" + file_.folder() + "/empty.db"}, 3, ""},
      {{"doctor", "--store", missing}, 3, ""},
      {emit_to(Store(), {"--topik", "x"}), 2, "bad_usage"},
      {emit_to(Store(), {"--payload", "{"}), 2, "bad_usage"},
      {{"emit", "--topic", "t", "--key", "k", "--type", "T", "--payload", "{", "--store", Store()},
       65,
       "invalid_json"},
      {{"route", "pause", "main", "--store", Store()}, 2, "bad_usage"},
      {{"tasks", "run", "--retention", "10", "--store", Store()}, 2, "bad_usage"},
      {{"consume", "--consumer", "c", "--topic", "t", "--sql", "x.sql", "--retention", "10s", "--until", "caught-up",
        "--timeout", "5s", "--store", Store(), "--broker", "journal:j.db"},
       2,
       "bad_usage"},
      {{"config", "check", "--config", "wrong.toml"}, 78, ""},
      {{"nosuch"}, 2, "bad_usage"},
  });
}

}  // namespace
}  // namespace sealane::testing
