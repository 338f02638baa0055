// Protects the command line's own manners: help, typos, exit codes, and JSON errors for every failure.

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "connect/store_url.hpp"
#include "exit_code.hpp"
#include "output.hpp"
#include "support/command_run.hpp"
#include "time_option.hpp"

namespace sealane::cli {
namespace {

using nlohmann::json;
using sealane::testing::CommandResult;
using sealane::testing::CommandRunner;
using ::testing::HasSubstr;
using ::testing::StartsWith;

CommandResult RunWords(const std::vector<std::string>& arguments) {
  return CommandRunner().Run(arguments);
}

TEST(Help, ShowsExamplesFirst) {
  const CommandResult overview = RunWords({"help"});
  EXPECT_EQ(overview.code, 0);
  EXPECT_LT(overview.out.find("Examples:"), overview.out.find("Commands:"));
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"--help"},
                                                                     {"-h"},
                                                                     {"help", "emit"},
                                                                     {"emit", "--help"},
                                                                     {"help", "messages"},
                                                                     {"help", "messages", "get"}}) {
    const CommandResult help = RunWords(arguments);
    EXPECT_EQ(help.code, 0) << arguments[0];
    EXPECT_FALSE(help.out.empty());
    EXPECT_EQ(help.err, "");
  }
  const CommandResult emit = RunWords({"emit", "-h"});
  EXPECT_LT(emit.out.find("Examples:"), emit.out.find("Options:"));
  EXPECT_THAT(emit.out, HasSubstr("--aggregate-version"));
}

TEST(Help, KeepsHiddenCommandsHidden) {
  EXPECT_EQ(RunWords({"help"}).out.find("config document"), std::string::npos);
}

TEST(Version, NamesItsLibraries) {
  const json version = json::parse(RunWords({"version", "-o", "json"}).out);
  EXPECT_EQ(version["apiVersion"], "sealane/v1");
  EXPECT_TRUE(version.contains("libpq") && version.contains("sqlite") && version.contains("compiler"));
  EXPECT_THAT(version["librdkafka"], StartsWith("2."));
  EXPECT_THAT(RunWords({"version"}).out, HasSubstr("\nlibrdkafka 2."));
  EXPECT_THAT(RunWords({"--version"}).out, StartsWith("sealane " + version["version"].get<std::string>()));
}

struct Typo {
  std::vector<std::string> arguments;
  const char* message;
  const char* hint;
};

TEST(Typos, AreNamedAndCorrected) {
  const Typo typos[] = {
      {{"emti"}, "unknown command `emti`", "did you mean `emit`?"},
      {{"mesages"}, "unknown command `mesages`", "did you mean `messages`?"},
      {{"messages", "lst"}, "unknown command `messages lst`", "did you mean `messages list`?"},
      {{"emit", "--topik", "t"}, "unknown option `--topik`", "did you mean `--topic`?"},
      {{"emit", "--topik=t"}, "unknown option `--topik`", "did you mean `--topic`?"},
      {{"messages", "list", "--stor", "x.db"}, "unknown option `--stor`", "did you mean `--store`?"},
      {{"version", "--zzzzzz"}, "unknown option `--zzzzzz`", "sealane help version shows the options"},
      {{"version", "extra"}, "unexpected argument `extra`", "sealane help version"},
      {{"messages"}, "`messages` needs to be told what to do", "sealane help messages"},
      {{}, "no command is given", "sealane help"},
      {{"emit", "--key"}, "--key needs a value", "write --key=VALUE"},
      {{"emit", "--key", "a", "--key", "b"}, "--key is given more than once", "give it once"},
      {{"version", "-o", "xml"}, "`xml` is none of table, json, jsonl", ""},
      {{"version", "--color", "pink"}, "`pink` is none of auto, always, never", ""},
  };
  for (const Typo& typo : typos) {
    const CommandResult result = RunWords(typo.arguments);
    EXPECT_EQ(result.code, 2) << typo.message;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("sealane: "));
    EXPECT_THAT(result.err, HasSubstr(typo.message));
    EXPECT_THAT(result.err, HasSubstr(typo.hint));
  }
}

TEST(JsonErrors, HaveOneShapeForTheParserToo) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"-o", "json"},
                                                    {"emti", "-o", "json"},
                                                    {"emit", "--topik", "x", "--output=json"},
                                                    {"emit", "-ojson", "--key"},
                                                    {"messages", "get", "nonsense", "--output", "jsonl"}}) {
    const CommandResult result = RunWords(arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    const json error = json::parse(result.err).at("error");
    EXPECT_EQ(error["code"], "bad_usage");
    EXPECT_EQ(error["kind"], "misuse");
    EXPECT_TRUE(error["message"].is_string());
    EXPECT_TRUE(error.contains("hint") && error.contains("field"));
    EXPECT_TRUE(error["details"].is_object());
  }
}

TEST(Arguments, MayStandBeforeTheCommand) {
  EXPECT_EQ(RunWords({"-o", "json", "version"}).code, 0);
  EXPECT_TRUE(json::accept(RunWords({"-o", "json", "version"}).out));
}

TEST(Errors, CannotDriveTheTerminal) {
  const CommandResult result = RunWords({"\x1b[31mred\r\n"});
  EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
  EXPECT_EQ(result.err.find('\r'), std::string::npos);
}

TEST(Color, IsUsedOnlyWhereItIsWanted) {
  CommandRunner runner;
  runner.terminal = true;
  EXPECT_THAT(runner.Run({"config", "print", "--config", "/nowhere"}).err, HasSubstr("\x1b["));
  EXPECT_EQ(runner.Run({"config", "print", "--config", "/nowhere", "--color=never"}).err.find('\x1b'),
            std::string::npos);
  runner.variables = {{"NO_COLOR", "1"}};
  EXPECT_EQ(runner.Run({"config", "print", "--config", "/nowhere"}).err.find('\x1b'), std::string::npos);
  runner.terminal = false;
  EXPECT_THAT(runner.Run({"config", "print", "--config", "/nowhere", "--color=always"}).err, HasSubstr("\x1b["));
}

TEST(ExitCode, FollowsCodeThenKind) {
  struct Row {
    ErrorKind kind;
    const char* code;
    ExitCode exit;
  };
  const Row rows[] = {
      {ErrorKind::kMisuse, "bad_usage", ExitCode::kUsage},
      {ErrorKind::kRejected, "not_found", ExitCode::kNotFound},
      {ErrorKind::kMisconfigured, "not_permitted", ExitCode::kNotPermitted},
      {ErrorKind::kUnavailable, "statement_timeout", ExitCode::kTimedOut},
      {ErrorKind::kConflict, "lock_timeout", ExitCode::kTimedOut},
      {ErrorKind::kConflict, "store_busy", ExitCode::kTimedOut},
      {ErrorKind::kUnavailable, "store_unreachable", ExitCode::kStoreUnreachable},
      {ErrorKind::kMisconfigured, "store_unreachable", ExitCode::kStoreUnreachable},
      {ErrorKind::kMisconfigured, "schema_newer", ExitCode::kSchemaMismatch},
      {ErrorKind::kMisconfigured, "schema_older", ExitCode::kSchemaMismatch},
      {ErrorKind::kCorrupt, "schema_changed", ExitCode::kSchemaMismatch},
      {ErrorKind::kMisconfigured, "schema_missing", ExitCode::kSchemaMissing},
      {ErrorKind::kMisconfigured, "database_missing", ExitCode::kDatabaseMissing},
      {ErrorKind::kMisconfigured, "login_refused", ExitCode::kLoginRefused},
      {ErrorKind::kMisconfigured, "store_read_only", ExitCode::kStoreReadOnly},
      {ErrorKind::kUnavailable, "store_full", ExitCode::kStoreFull},
      {ErrorKind::kUnavailable, "connection_lost", ExitCode::kConnectionLost},
      {ErrorKind::kInDoubt, "commit_in_doubt", ExitCode::kConnectionLost},
      {ErrorKind::kUnavailable, "output_failed", ExitCode::kFailed},
      {ErrorKind::kUnavailable, "anything", ExitCode::kStoreUnreachable},
      {ErrorKind::kRejected, "payload_too_large", ExitCode::kEventRefused},
      {ErrorKind::kMisconfigured, "bad_configuration", ExitCode::kBadConfiguration},
      {ErrorKind::kMisconfigured, "store_not_set", ExitCode::kBadConfiguration},
      {ErrorKind::kCancelled, "interrupted", ExitCode::kInterrupted},
      {ErrorKind::kConflict, "version_conflict", ExitCode::kFailed},
      {ErrorKind::kFenced, "anything", ExitCode::kFailed},
      {ErrorKind::kCorrupt, "payload_hash_mismatch", ExitCode::kFailed},
      {ErrorKind::kMisuse, "no_transaction", ExitCode::kFailed},
  };
  for (const Row& row : rows) EXPECT_EQ(ExitCodeOf(Error(row.kind, row.code, "x")), row.exit) << row.code;
}

TEST(ExitCode, IsDocumentedInFull) {
  std::ifstream file(SEALANE_TEST_SOURCE_DIR "/docs/cli.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  const std::string shown = RunWords({"help", "exit-codes"}).out;
  for (const ExitCodeText& row : ExitCodes()) {
    const std::string number = std::to_string(static_cast<int>(row.code));
    EXPECT_THAT(document, HasSubstr("| " + number + " | " + std::string(row.meaning) + " |"));
    EXPECT_THAT(shown, HasSubstr(number + "  " + std::string(row.meaning)));
  }
}

TEST(RenderError, CarriesEverythingIntoJson) {
  const Error error = Error(ErrorKind::kUnavailable, "store_unreachable", "no \"answer\"")
                          .WithHint("try again")
                          .WithField("store.url")
                          .WithNative("08006")
                          .WithContext("in line 3");
  const json document = json::parse(RenderError(error, OutputFormat::kJson, true)).at("error");
  EXPECT_EQ(document["message"], "no \"answer\", in line 3");
  EXPECT_EQ(document["field"], "store.url");
  EXPECT_EQ(document["details"]["native"], "08006");
  EXPECT_EQ(document["details"]["context"], json::array({"in line 3"}));
  EXPECT_EQ(RenderError(error, OutputFormat::kTable, false),
            "sealane: no \"answer\", in line 3 [08006]\n  hint: try again\n");
}

TEST(Table, AlignsByCharactersAndNeutralisesCells) {
  Table table({"A", "B"});
  table.Add({"\xc3\xa4\xc3\xb6", "x"});
  table.Add({"long\n", ""});
  EXPECT_EQ(table.Render(false), "A       B\n\xc3\xa4\xc3\xb6      x\nlong\\n\n");
}

TEST(StoreUrl, IsPostgresOrSqlite) {
  EXPECT_EQ(ParseStoreUrl("postgres://u@h/d")->kind, StoreKind::kPostgres);
  EXPECT_EQ(ParseStoreUrl("postgresql://h/d")->location, "postgresql://h/d");
  EXPECT_EQ(ParseStoreUrl("sqlite:./a.sqlite")->location, "./a.sqlite");
  EXPECT_EQ(ParseStoreUrl("/tmp/shop.db")->location, "/tmp/shop.db");
  for (const char* url : {"", "shop", "sqlite:", "sqlite::memory:", ":memory:", "sqlite://x.db", "mysql://h/x.db",
                          "host=db user=app", "postgres:/h"}) {
    const auto target = ParseStoreUrl(url);
    ASSERT_FALSE(target) << url;
    EXPECT_EQ(target.error().code(), "bad_store_url");
    EXPECT_FALSE(target.error().hint().empty());
  }
}

TEST(Times, AreAbsoluteOrRelative) {
  const Timestamp now{std::chrono::seconds{1'700'000'000}};
  EXPECT_EQ(*ParseFutureTime("+5m", now), now + std::chrono::minutes{5});
  EXPECT_EQ(*ParsePastTime("15m", now), now - std::chrono::minutes{15});
  EXPECT_EQ(*ParsePastTime("2023-11-14T22:13:20Z", now), now);
  for (const char* text : {"", "5m", "+5", "tomorrow", "2023-11-14"})
    EXPECT_FALSE(ParseFutureTime(text, now)) << text;
  for (const char* text : {"", "+5m", "5", "yesterday", "30000d"}) EXPECT_FALSE(ParsePastTime(text, now)) << text;
}

}  // namespace
}  // namespace sealane::cli
