// Protects what the commands do, run in this process on a SQLite file: emit, list, get, migrate, config.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "commands/event_fields.hpp"
#include "commands/event_json.hpp"
#include "message_view.hpp"
#include "support/command_run.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::cli {
namespace {

using nlohmann::json;
using sealane::testing::CommandResult;
using sealane::testing::CommandRunner;
using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

class CommandsTest : public ::testing::Test {
 protected:
  void SetUp() override { runner_.variables["SEALANE_STORE__URL"] = "sqlite:" + file_.path(); }
  void Migrate() { ASSERT_EQ(runner_.Run({"migrate", "up"}).code, 0); }

  static Words Emit(Words more) {
    Words words = {"emit", "--topic", "orders", "--key", "o-1", "--type", "OrderPlaced"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string Emitted(Words more) {
    const CommandResult result = runner_.Run(Emit(std::move(more)));
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out.substr(0, result.out.find('\n'));
  }
  json Got(const std::string& id) {
    const CommandResult result = runner_.Run({"messages", "get", id, "-o", "json"});
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out);
  }
  json Listed(Words more) {
    Words words = {"messages", "list", "-o", "json"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = runner_.Run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out);
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = file_.folder() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  sealane::testing::SqliteFile file_;
  CommandRunner runner_;
};

TEST_F(CommandsTest, EmitPrintsTheIdAndTheNextStep) {
  Migrate();
  const CommandResult result = runner_.Run(Emit({"--payload", R"({"id":1})", "--store", file_.path()}));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out.size(), 37U);
  EXPECT_THAT(result.err,
              HasSubstr("next: sealane messages get " + result.out.substr(0, 36) + " --store " + file_.path()));
}

TEST_F(CommandsTest, WhatIsSuggestedCanBePastedWhateverAFileIsCalled) {
  const std::string path = file_.folder() + "/ann's shop.db";
  const CommandResult migrated = runner_.Run({"migrate", "up", "--store", "sqlite:" + path});
  ASSERT_EQ(migrated.code, 0) << migrated.err;
  EXPECT_THAT(migrated.err, HasSubstr(" --store 'sqlite:" + file_.folder() + "/ann'\\''s shop.db'\n"));
}

TEST_F(CommandsTest, WhatIsSuggestedCanBePasted) {
  runner_.variables.clear();
  const std::string config = Write("shop.toml", "[store]\nurl = \"sqlite:" + file_.path() + "\"\n");
  // The words behind the last of these marks, up to the end of its line.
  const auto suggested = [](const std::string& text, const std::string& mark) {
    const std::size_t at = text.rfind(mark);
    EXPECT_NE(at, std::string::npos) << text;
    std::istringstream line(text.substr(at + mark.size(), text.find('\n', at) - at - mark.size()));
    return Words(std::istream_iterator<std::string>(line), {});
  };
  Words emit = Emit({"--payload", "{}", "--config", config});
  const CommandResult missing = runner_.Run(emit);
  ASSERT_EQ(missing.code, 18) << missing.err;
  ASSERT_EQ(runner_.Run(suggested(missing.err, "with: sealane ")).code, 0) << missing.err;
  const CommandResult emitted = runner_.Run(emit);
  ASSERT_EQ(emitted.code, 0) << emitted.err;
  EXPECT_EQ(runner_.Run(suggested(emitted.err, "next: sealane ")).code, 0) << emitted.err;

  const std::string other = file_.folder() + "/other.db";
  const CommandResult examined = runner_.Run({"doctor", "--store", other});
  EXPECT_EQ(examined.code, 3);
  EXPECT_EQ(runner_.Run(suggested(examined.out, "next: sealane ")).code, 0) << examined.out;
  EXPECT_TRUE(std::filesystem::exists(other));
}

TEST_F(CommandsTest, EmitTakesEveryField) {
  Migrate();
  const std::string id = Emitted({"--payload",
                                  R"({"id":1})",
                                  "--tenant",
                                  "t1",
                                  "--aggregate-type",
                                  "order",
                                  "--aggregate-id",
                                  "o-1",
                                  "--aggregate-version",
                                  "3",
                                  "--header",
                                  "a=1=2",
                                  "--header",
                                  "b=[x,y]",
                                  "--content-type",
                                  "application/vnd.shop+json",
                                  "--kind",
                                  "command",
                                  "--correlation-id",
                                  "c-1",
                                  "--causation-id",
                                  "c-0",
                                  "--traceparent",
                                  "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                  "--tracestate",
                                  "v=1",
                                  "--schema-id",
                                  "s-9",
                                  "--schema-version",
                                  "2",
                                  "--producer",
                                  "shop",
                                  "--id",
                                  "018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f",
                                  "--occurred-at",
                                  "2024-05-06T07:08:09Z",
                                  "--available-at",
                                  "2034-05-06T07:08:09Z",
                                  "--dedup-key",
                                  "d-1",
                                  "--no-unique-version"});
  EXPECT_EQ(id, "018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f");
  const json message = Got(id);
  EXPECT_EQ(message["id"], id);
  EXPECT_EQ(message["topic"], "orders");
  EXPECT_EQ(message["key"], "o-1");
  EXPECT_EQ(message["type"], "OrderPlaced");
  EXPECT_EQ(message["tenant"], "t1");
  EXPECT_EQ(message["aggregate_type"], "order");
  EXPECT_EQ(message["aggregate_id"], "o-1");
  EXPECT_EQ(message["aggregate_version"], 3);
  EXPECT_EQ(message["headers"], (json{{"a", "1=2"}, {"b", "[x,y]"}}));
  EXPECT_EQ(message["content_type"], "application/vnd.shop+json");
  EXPECT_EQ(message["kind"], "command");
  EXPECT_EQ(message["correlation_id"], "c-1");
  EXPECT_EQ(message["causation_id"], "c-0");
  EXPECT_EQ(message["traceparent"], "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  EXPECT_EQ(message["tracestate"], "v=1");
  EXPECT_EQ(message["schema_id"], "s-9");
  EXPECT_EQ(message["schema_version"], 2);
  EXPECT_EQ(message["producer"], "shop");
  EXPECT_EQ(message["occurred_at"], "2024-05-06T07:08:09.000000Z");
  EXPECT_EQ(message["available_at"], "2034-05-06T07:08:09.000000Z");
  EXPECT_EQ(message["status"], "PENDING");
  EXPECT_EQ(message["payload"], (json{{"id", 1}}));
}

TEST_F(CommandsTest, EmitHasAFlagForEveryField) {
  const std::string help = runner_.Run({"help", "emit"}).out;
  for (const EventField& field : EventFields()) EXPECT_THAT(help, HasSubstr("  " + FlagName(field) + " "));
}

TEST_F(CommandsTest, EmitTakesAnyArgumentAsPayload) {
  Migrate();
  for (const std::string payload : {"[1,2]", "", "-5", "--x", "a\nb\n", "a=b", "%%", "\"q\"", "{}", "[]", "--payload",
                                    "-o", "true", "{a}", "\xff\xfe", " "}) {
    const std::string id = Emitted({"--content-type", "text/plain", "--payload", payload});
    EXPECT_EQ(runner_.Run({"messages", "get", id, "--raw"}).out, payload);
  }
  const std::string id = Emitted({"--payload=", "--content-type", "text/plain"});
  EXPECT_EQ(runner_.Run({"messages", "get", id, "--raw"}).out, "");
  EXPECT_EQ(Got(id)["content_type"], "text/plain");
}

TEST_F(CommandsTest, EmitReadsFilesAndStandardInput) {
  Migrate();
  const std::string bytes = std::string("\0\xff\r\n", 4) + "tail";
  const std::string from_file =
      Emitted({"--content-type", "application/octet-stream", "--payload", "@" + Write("p.bin", bytes)});
  EXPECT_EQ(runner_.Run({"messages", "get", from_file, "--raw"}).out, bytes);
  runner_.in = bytes;
  const std::string from_stdin = Emitted({"--content-type", "application/octet-stream", "--payload", "-"});
  EXPECT_EQ(runner_.Run({"messages", "get", from_stdin, "--raw"}).out, bytes);
  EXPECT_EQ(Got(from_stdin)["payload_base64"], ToBase64(bytes));
  EXPECT_EQ(Got(from_stdin)["payload_sha256"], ToHex(Sha256(bytes)));
  EXPECT_EQ(runner_.Run(Emit({"--payload", "@/nowhere"})).code, 2);
  EXPECT_EQ(runner_.Run(Emit({"--payload", "@" + file_.folder()})).code, 2);
}

TEST_F(CommandsTest, EmitTellsMistakesOfTheFlagsFromThoseOfTheEvent) {
  Migrate();
  const auto code = [&](Words more) { return runner_.Run(Emit(std::move(more))).code; };
  EXPECT_EQ(runner_.Run({"emit", "--topic", "t"}).code, 2);
  EXPECT_EQ(code({}), 2);
  EXPECT_EQ(code({"--payload", "1", "--id", "x"}), 2);
  EXPECT_EQ(code({"--payload", "1", "--kind", "wish"}), 2);
  EXPECT_EQ(code({"--payload", "1", "--aggregate-version", "1.5"}), 2);
  EXPECT_EQ(code({"--payload", "1", "--schema-version", "99999999999"}), 2);
  EXPECT_EQ(code({"--payload", "1", "--header", "noequals"}), 2);
  EXPECT_EQ(code({"--payload", "1", "--available-at", "5m"}), 2);
  EXPECT_EQ(code({"--payload", "not json"}), 65);
  EXPECT_EQ(code({"--payload", "1", "--aggregate-version", "-1"}), 65);
  EXPECT_EQ(code({"--payload", "1", "--tenant", "\xff"}), 65);
}

TEST_F(CommandsTest, EmitTakesARelativeTime) {
  Migrate();
  ManualClock clock(Timestamp{std::chrono::seconds{1'700'000'000}});
  runner_.clock = &clock;
  EXPECT_EQ(Got(Emitted({"--payload", "1", "--available-at", "+5m"}))["available_at"], "2023-11-14T22:18:20.000000Z");
}

TEST_F(CommandsTest, EmitSaysWhenTheDedupKeyWasUsed) {
  Migrate();
  const std::string first = Emitted({"--payload", "1", "--dedup-key", "d"});
  const json again = json::parse(runner_.Run(Emit({"--payload", "2", "--dedup-key", "d", "-o", "json"})).out);
  EXPECT_EQ(again["event_id"], first);
  EXPECT_EQ(again["already_there"], true);
  EXPECT_THAT(runner_.Run(Emit({"--payload", "2", "--dedup-key", "d"})).err, HasSubstr("already there"));
  EXPECT_EQ(Listed({})["messages"].size(), 1U);
}

TEST_F(CommandsTest, EmitRefusesADuplicate) {
  Migrate();
  const Words more = {"--payload",      "1", "--aggregate-type",    "order",
                      "--aggregate-id", "1", "--aggregate-version", "1"};
  Emitted(more);
  Words again = more;
  again.insert(again.end(), {"-o", "json"});
  const CommandResult result = runner_.Run(Emit(again));
  EXPECT_EQ(result.code, 65);
  EXPECT_EQ(json::parse(result.err)["error"]["code"], "duplicate_version");
}

TEST_F(CommandsTest, EmitObeysTheConfiguration) {
  Migrate();
  runner_.variables["SEALANE_OUTBOX__PRODUCER"] = "shop";
  runner_.variables["SEALANE_OUTBOX__PAYLOAD_MAX"] = "4B";
  EXPECT_EQ(Got(Emitted({"--payload", "1234"}))["producer"], "shop");
  EXPECT_EQ(runner_.Run(Emit({"--payload", "12345"})).code, 65);
}

TEST_F(CommandsTest, EmitChecksSchemas) {
  Migrate();
  const std::string schemas = file_.folder() + "/schemas";
  std::filesystem::create_directory(schemas);
  std::ofstream(schemas + "/OrderPlaced.v1.json") << R"({"type":"object","required":["id"]})";
  runner_.variables["SEALANE_OUTBOX__SCHEMAS_DIR"] = schemas;
  Emitted({"--payload", R"({"id":1})"});
  const CommandResult refused = runner_.Run(Emit({"--payload", "{}", "-o", "json"}));
  EXPECT_EQ(refused.code, 65);
  EXPECT_EQ(json::parse(refused.err)["error"]["code"], "schema_mismatch");
  Emitted({"--payload", "{}", "--schema-version", "2"});
  runner_.variables["SEALANE_OUTBOX__SCHEMAS_DIR"] = schemas + "/none";
  EXPECT_EQ(runner_.Run(Emit({"--payload", "{}"})).code, 78);
}

TEST_F(CommandsTest, EmitJsonlAppendsAllLinesInOrder) {
  Migrate();
  std::string lines;
  for (int i = 0; i < 1'200; ++i) {
    lines += R"({"topic":"t","key":"k)" + std::to_string(i % 7) + R"(","type":"T","payload":{ "n" : )" +
             std::to_string(i) + "}}\n";
    if (i % 100 == 0) lines += "  \r\n";
  }
  const CommandResult result = runner_.Run({"emit", "--jsonl", Write("e.jsonl", lines), "-o", "json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["events"].size(), 1'200U);
  const json listed = Listed({"--limit", "2000", "--payload"})["messages"];
  ASSERT_EQ(listed.size(), 1'200U);
  for (int i = 0; i < 1'200; ++i) ASSERT_EQ(listed[static_cast<std::size_t>(1'199 - i)]["payload"]["n"], i);
}

TEST_F(CommandsTest, EmitJsonlTakesPayloadBytesAsTheyAre) {
  Migrate();
  runner_.in =
      R"({"topic":"t","key":"a","type":"T","payload": {"z":1.50, "a" : 12345678901234567890123, "z":2} })"
      "\n"
      R"({"topic":"t","key":"b","type":"T","content_type":"text/plain","payload_text":"caf\u00e9"})"
      "\n"
      R"({"topic":"t","key":"c","type":"T","content_type":"x/y","payload_base64":"/wA=","headers":{"h":"v"}})";
  const CommandResult result = runner_.Run({"emit", "--jsonl", "-"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto raw = [&](int line) {
    return runner_.Run({"messages", "get", result.out.substr(static_cast<std::size_t>(line) * 37, 36), "--raw"}).out;
  };
  EXPECT_EQ(raw(0), R"({"z":1.50, "a" : 12345678901234567890123, "z":2})");
  EXPECT_EQ(raw(1), "caf\xc3\xa9");
  EXPECT_EQ(raw(2), std::string("\xff\0", 2));
}

TEST_F(CommandsTest, EmitJsonlWritesAllOrNoneAndNamesTheLine) {
  Migrate();
  const std::string good = R"({"topic":"t","key":"k","type":"T","payload":1})";
  const std::pair<const char*, const char*> bad[] = {
      {"{", "invalid_json"},
      {"[]", "invalid_field"},
      {R"({"topic":"t","key":"k","type":"T"})", "missing_field"},
      {R"({"key":"k","type":"T","payload":1})", "missing_field"},
      {R"({"topic":"t","key":"k","type":"T","payload":1,"payload_text":"x"})", "doubled_field"},
      {R"({"topic":"t","key":"k","type":"T","payload":1,"payload":1})", "doubled_field"},
      {R"({"topik":"t","key":"k","type":"T","payload":1})", "unknown_field"},
      {R"({"topic":5,"key":"k","type":"T","payload":1})", "invalid_field"},
      {R"({"topic":"t","key":"k","type":"T","payload":1,"aggregate_version":"3"})", "invalid_field"},
      {R"({"topic":"t","key":"k","type":"T","payload":1,"aggregate_version":1.5})", "invalid_field"},
      {R"({"topic":"t","key":"k","type":"T","payload_base64":"*"})", "invalid_field"},
      {R"({"topic":"t","key":"k","type":"T","payload":1,"headers":{"a":1}})", "invalid_field"},
      {R"({"topic":"t","key":"k","type":"T","payload":1,"unique_version":1})", "invalid_field"},
      {R"({"topic":"t","key":"k","type":"T","payload":1,"occurred_at":"noon"})", "invalid_time"},
  };
  for (const auto& [line, code] : bad) {
    std::string text;
    for (int i = 0; i < 600; ++i) text += good + "\n";  // the first batch is already sent when the bad line comes
    runner_.in = text + line + "\n";
    const CommandResult result = runner_.Run({"emit", "--jsonl", "-", "-o", "json"});
    EXPECT_EQ(result.code, 65) << line;
    EXPECT_EQ(result.out, "");
    const json error = json::parse(result.err)["error"];
    EXPECT_EQ(error["code"], code) << line << result.err;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("in line 601"));
  }
  EXPECT_EQ(Listed({})["messages"].size(), 0U);
}

TEST_F(CommandsTest, EmitJsonlStandsAlone) {
  EXPECT_EQ(runner_.Run({"emit", "--jsonl", "-", "--topic", "t"}).code, 2);
  EXPECT_EQ(runner_.Run({"emit", "--jsonl", "-", "--payload", "1"}).code, 2);
  EXPECT_EQ(runner_.Run({"emit", "--jsonl", "/nowhere"}).code, 2);
}

TEST_F(CommandsTest, ListFiltersAndPages) {
  Migrate();
  for (int i = 1; i <= 5; ++i) {
    Emitted({"--payload", std::to_string(i), "--tenant", i % 2 == 0 ? "even" : "odd", "--aggregate-type", "order",
             "--aggregate-id", std::to_string(i), "--correlation-id", "c" + std::to_string(i)});
  }
  const auto count = [&](Words more) { return Listed(std::move(more))["messages"].size(); };
  EXPECT_EQ(count({}), 5U);
  EXPECT_EQ(count({"--tenant", "even"}), 2U);
  EXPECT_EQ(count({"--topic", "orders", "--key", "o-1", "--type", "OrderPlaced"}), 5U);
  EXPECT_EQ(count({"--topic", "other"}), 0U);
  EXPECT_EQ(count({"--aggregate-type", "order", "--aggregate-id", "3"}), 1U);
  EXPECT_EQ(count({"--correlation-id", "c4"}), 1U);
  EXPECT_EQ(count({"--status", "pending"}), 5U);
  EXPECT_EQ(count({"--status", "DEAD"}), 0U);
  EXPECT_EQ(count({"--since", "1h"}), 5U);
  EXPECT_EQ(count({"--until", "1h"}), 0U);
  const json page = Listed({"--limit", "2"});
  EXPECT_EQ(page["apiVersion"], "sealane/v1");
  EXPECT_EQ(page["messages"].size(), 2U);
  EXPECT_EQ(count({"--before-seq", std::to_string(page["next_before_seq"].get<int>())}), 3U);
  EXPECT_TRUE(Listed({})["next_before_seq"].is_null());
  EXPECT_FALSE(Listed({})["messages"][0].contains("payload"));
  for (const Words& words : {Words{"--limit", "0"},
                             {"--limit", "10001"},
                             {"--limit", "x"},
                             {"--status", "LOST"},
                             {"--since", "soon"},
                             {"--before-seq", "-1"}}) {
    Words all = {"messages", "list"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(runner_.Run(all).code, 2) << words[0] << words[1];
  }
}

TEST_F(CommandsTest, ListShowsAlignedTextThatCannotDriveATerminal) {
  Migrate();
  EXPECT_EQ(runner_.Run({"messages", "list"}).out, "");
  Emitted({"--payload", "1", "--tenant", "\x1b[31mred\n"});
  const CommandResult table = runner_.Run({"messages", "list", "--payload"});
  EXPECT_EQ(table.out.find('\x1b'), std::string::npos);
  EXPECT_THAT(table.out, HasSubstr("\\x1b[31mred\\n"));
  const std::size_t header_end = table.out.find('\n');
  EXPECT_EQ(table.out.substr(0, header_end).find("STATUS"), table.out.substr(header_end + 1).find("PENDING"));
  const std::string details = runner_.Run({"messages", "get", Listed({})["messages"][0]["id"]}).out;
  EXPECT_EQ(details.find('\x1b'), std::string::npos);
  EXPECT_THAT(details, HasSubstr("PENDING"));
}

TEST_F(CommandsTest, JsonLinesStayLines) {
  Migrate();
  Emitted({"--payload", "{\n  \"id\": 1\n}"});
  Emitted({"--payload", "1"});
  const CommandResult result = runner_.Run({"messages", "list", "--payload", "-o", "jsonl"});
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2);
  const json last = json::parse(result.out.substr(result.out.find('\n')));
  EXPECT_EQ(last["payload_base64"], ToBase64("{\n  \"id\": 1\n}"));
}

TEST_F(CommandsTest, GetSaysWhenThereIsNoSuchEvent) {
  Migrate();
  const CommandResult result = runner_.Run({"messages", "get", "018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f", "-o", "json"});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(json::parse(result.err)["error"]["code"], "not_found");
  EXPECT_EQ(runner_.Run({"messages", "get", "nonsense"}).code, 2);
}

TEST_F(CommandsTest, MigratePlansThenDoesThenReports) {
  const json plan = json::parse(runner_.Run({"migrate", "plan", "-o", "json"}).out);
  EXPECT_EQ(plan["installed"], 0);
  EXPECT_GE(plan["pending"].size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(file_.path())) << "a plan changes nothing";
  EXPECT_EQ(runner_.Run({"migrate", "status"}).code, 3);
  EXPECT_EQ(json::parse(runner_.Run({"migrate", "status", "-o", "json"}).out)["state"], "pending");
  EXPECT_THAT(runner_.Run({"migrate", "plan", "--sql"}).out, HasSubstr("CREATE TABLE"));
  EXPECT_EQ(runner_.Run({"migrate", "up", "--sql"}).out, runner_.Run({"migrate", "plan", "--sql"}).out);
  EXPECT_TRUE(json::parse(runner_.Run({"migrate", "plan", "--sql", "-o", "json"}).out)["pending"][0].contains("sql"));

  const CommandResult up = runner_.Run({"migrate", "up"});
  EXPECT_EQ(up.code, 0);
  EXPECT_THAT(up.out, HasSubstr("applied 0001"));
  EXPECT_THAT(up.err, HasSubstr("next: sealane emit"));

  EXPECT_THAT(runner_.Run({"migrate", "up"}).out, HasSubstr("nothing to do"));
  EXPECT_EQ(json::parse(runner_.Run({"migrate", "up", "-o", "json"}).out)["applied"].size(), 0U);
  EXPECT_THAT(runner_.Run({"migrate", "plan"}).out, HasSubstr("nothing to do"));
  EXPECT_EQ(runner_.Run({"migrate", "plan", "--sql"}).out, "");
  EXPECT_EQ(runner_.Run({"migrate", "status"}).code, 0);
  EXPECT_EQ(json::parse(runner_.Run({"migrate", "status", "-o", "json"}).out)["state"], "up_to_date");
}

TEST_F(CommandsTest, AsksForAStoreWhenThereIsNone) {
  runner_.variables.clear();
  const CommandResult result = runner_.Run({"messages", "list", "-o", "json"});
  EXPECT_EQ(result.code, 78);
  EXPECT_EQ(json::parse(result.err)["error"]["code"], "store_not_set");
}

TEST_F(CommandsTest, ConfigPrintAndCheck) {
  runner_.variables["SEALANE_STORE__URL"] = "postgres://app:canary-7@db/shop";
  const CommandResult print = runner_.Run({"config", "print", "--origin"});
  EXPECT_EQ(print.code, 0);
  EXPECT_THAT(print.out, HasSubstr("store.url = \"postgres://app:***@db/shop\""));
  EXPECT_THAT(print.out, HasSubstr("# SEALANE_STORE__URL"));
  const json settings = json::parse(runner_.Run({"config", "print", "-o", "json"}).out)["settings"];
  EXPECT_EQ(settings[0]["value"], "postgres://app:***@db/shop");
  EXPECT_EQ(runner_.Run({"config", "check"}).code, 0);
  EXPECT_EQ(json::parse(runner_.Run({"config", "check", "-o", "json"}).out)["ok"], true);
  runner_.variables["SEALANE_LOG__LEVEL"] = "loud";
  runner_.variables["SEALANE_NOPE"] = "1";
  const CommandResult broken = runner_.Run({"config", "check", "-o", "json"});
  EXPECT_EQ(broken.code, 78);
  EXPECT_EQ(json::parse(broken.err)["error"]["details"]["problems"].size(), 2U);
  EXPECT_THAT(runner_.Run({"config", "check"}).err, HasSubstr("\n  SEALANE_LOG__LEVEL: log.level: `loud`"));
}

TEST_F(CommandsTest, WarnsInTheFormatThatWasAskedFor) {
  runner_.variables.clear();
  runner_.config_candidates = {Write("sealane.toml", "[store]\nurl = \"postgres://app:canary-8@db/shop\"\n")};
  EXPECT_THAT(runner_.Run({"config", "check"}).err, HasSubstr("sealane: warning: "));
  EXPECT_TRUE(json::parse(runner_.Run({"config", "check", "-o", "json"}).err).contains("warning"));
}

TEST(OverallState, ShowsWhatNeedsAttentionFirst) {
  StoredMessage message;
  EXPECT_EQ(OverallState(message), DeliveryState::kPending);
  message.routes = {{.route = "a",
                     .state = DeliveryState::kPublished,
                     .next_attempt_at = {},
                     .published_at = {},
                     .last_error_code = {},
                     .last_error_message = {}}};
  EXPECT_EQ(OverallState(message), DeliveryState::kPublished);
  message.routes.push_back(message.routes[0]);
  message.routes[1].state = DeliveryState::kDead;
  EXPECT_EQ(OverallState(message), DeliveryState::kDead);
  const json document = json::parse(MessageJson(message, false));
  EXPECT_EQ(document["status"], "DEAD");
  EXPECT_EQ(document["routes"].size(), 2U);
}

}  // namespace
}  // namespace sealane::cli
