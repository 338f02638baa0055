// Protects scripts as handlers: parameters are found where they are parameters and nowhere else, the rest of the text
// is the author's, and what would part the effect from its record is refused with the place where it stands.

#include "inbox/sql_script.hpp"

#include <functional>
#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "base/time_text.hpp"

namespace sealane {
namespace {

using Texts = std::vector<std::string>;

// The statements as text; for a script that must be refused, its code.
Texts Parsed(std::string_view script, Placeholder style = Placeholder::kDollar) {
  const auto parsed = SqlScript::Parse(script, style);
  if (!parsed) return {parsed.error().code()};
  Texts texts;
  for (const auto& statement : parsed->statements()) texts.push_back(statement.text);
  return texts;
}

std::vector<SqlParameter> Parameters(std::string_view script) {
  const auto parsed = SqlScript::Parse(script, Placeholder::kDollar);
  return parsed ? parsed->statements().front().parameters : std::vector<SqlParameter>{};
}

Error RefusalOf(std::string_view script, Placeholder style = Placeholder::kDollar) {
  const auto parsed = SqlScript::Parse(script, style);
  if (parsed) return Error(ErrorKind::kMisuse, "accepted", std::string(script));
  EXPECT_EQ(parsed.error().kind(), ErrorKind::kRejected);
  return parsed.error();
}

// ---- parsing ----

TEST(SqlScript, NumbersEachPlaceOfAParameter) {
  EXPECT_EQ(Parsed("INSERT INTO t VALUES (:key, :payload, :key)"), Texts{"INSERT INTO t VALUES ($1, $2, $3)"});
  EXPECT_EQ(Parameters("INSERT INTO t VALUES (:key, :payload, :key)"),
            (std::vector{SqlParameter::kKey, SqlParameter::kPayload, SqlParameter::kKey}));
  EXPECT_EQ(Parsed("SELECT :key||:type", Placeholder::kQuestion), Texts{"SELECT ?1||?2"});
}

TEST(SqlScript, CountsFromOneInEveryStatement) {
  EXPECT_EQ(Parsed(" ;; SELECT :key ;\n-- between\nSELECT :type, :key; -- the end\n /* really */ "),
            (Texts{"SELECT $1", "-- between\nSELECT $1, $2"}));
}

TEST(SqlScript, KnowsTheLineOfAStatement) {
  const auto parsed = SqlScript::Parse("SELECT 1;\n\n-- two\nSELECT 2", Placeholder::kDollar);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->statements()[0].line, 1U);
  EXPECT_EQ(parsed->statements()[1].line, 4U);
}

TEST(SqlScript, LeavesAloneWhatIsNoParameter) {
  for (const std::string script : {
           "SELECT ':key; '':type'' '",
           R"(SELECT E'\':key;' || e'\\' || E'a''\':key')",
           "SELECT E'a'\n  '\\':key;'",
           "SELECT 'back\\'",
           R"(SELECT ":key;""" FROM "a:type")",
           "DO $$ BEGIN PERFORM ':key'; END $$",
           "SELECT $tag$ :key; $$ $ta$ $other$ $tag$",
           "SELECT 1 -- :key; it's\n, 2",
           "SELECT 1 /* :key; /* ' */ :type */ + 2",
           "SELECT '1'::int, a::text::\"char\"",
           "SELECT f(a := 1)",
           "SELECT a[1:2], a[1:n], a[b:c], a[f(1):g(2)], a[:2], a[:], a[b[1]:n]",
           "SELECT a$1, b$x$y",
           "SELECT a ? 'b', a @> b",
           "SELECT 1e5, 0x1F, U&'\\0441', X'ff', N'x'",
           "SELECT '12:30'::time AT TIME ZONE 'UTC'",
       }) {
    EXPECT_EQ(Parsed(script), Texts{script});
    EXPECT_TRUE(Parameters(script).empty()) << script;
  }
}

TEST(SqlScript, FindsParametersNextToAnything) {
  EXPECT_EQ(Parsed("SELECT :payload::jsonb->>'a', (:key), -:version, a[:version], a[:version:2], a[1: :version]"),
            Texts{"SELECT $1::jsonb->>'a', ($2), -$3, a[$4], a[$5:2], a[1: $6]"});
  EXPECT_EQ(Parsed("SELECT 'a':key/*x*/:key--y\n:key"), Texts{"SELECT 'a'$1/*x*/$2--y\n$3"});
  // `AND$1` would be a word.
  EXPECT_EQ(Parsed("SELECT 1 WHERE a AND:key"), Texts{"SELECT 1 WHERE a AND $1"});
  EXPECT_EQ(Parsed("SELECT 1 WHERE a AND:key", Placeholder::kQuestion), Texts{"SELECT 1 WHERE a AND?1"});
}

TEST(SqlScript, ReadsWhatDiffersAsTheDatabaseDoes) {
  const auto question = Placeholder::kQuestion;
  EXPECT_EQ(Parsed("SELECT [:key;'], `:key;\"` FROM t", question), Texts{"SELECT [:key;'], `:key;\"` FROM t"});
  EXPECT_EQ(Parsed("SELECT /* /* */ :key /*/ */", question), Texts{"SELECT /* /* */ ?1 /*/ */"});
  EXPECT_EQ(Parsed("SELECT 'a\\', :key", question), Texts{"SELECT 'a\\', ?1"});
  EXPECT_EQ(Parsed("SELECT :key /* /* */", Placeholder::kDollar), Texts{"script_unterminated"});
  EXPECT_EQ(Parsed("SELECT a[':key'::int]", Placeholder::kDollar), Texts{"SELECT a[':key'::int]"});
}

TEST(SqlScript, RefusesAnUnknownParameterWithItsPlaceAndAGuess) {
  const Error error = RefusalOf("SELECT 'ä',\n  'äö', :aggregat_id");
  EXPECT_EQ(error.code(), "unknown_parameter");
  EXPECT_EQ(error.field(), "aggregat_id");
  EXPECT_NE(error.message().find("line 2, column 9"), std::string::npos) << error.message();
  EXPECT_EQ(error.hint(), "did you mean `:aggregate_id`?");
  EXPECT_NE(RefusalOf("SELECT :zzzzzzzzzzzz").hint().find("event_id, tenant"), std::string::npos);
  EXPECT_EQ(RefusalOf("SELECT :Key").hint(), "did you mean `:key`?");
  EXPECT_EQ(RefusalOf("SELECT :key\xc3\xa4").code(), "unknown_parameter");
}

TEST(SqlScript, RefusesParametersThatNobodyGivesAValue) {
  EXPECT_EQ(RefusalOf("SELECT $1").code(), "numbered_parameter");
  for (const auto* script : {"SELECT ?", "SELECT ?1", "SELECT @a", "SELECT $a", "SELECT :1"}) {
    EXPECT_EQ(RefusalOf(script, Placeholder::kQuestion).code(), "numbered_parameter") << script;
  }
}

TEST(SqlScript, RefusesAScriptWithoutAStatement) {
  for (const auto* script : {"", " \n", ";;", "-- nothing", "/* nothing */ ; -- at all"}) {
    EXPECT_EQ(RefusalOf(script).code(), "script_empty") << script;
  }
}

TEST(SqlScript, RefusesWhatDoesNotEndWithThePlaceWhereItBegins) {
  for (const auto* script : {"\nSELECT 'a", "\nCALL( E'a\\'", "\nSELECT \"a", "\nSELECT $$a$", "\nSELECT $a$ $$",
                             "\nSELECT /* /* */", "\nSELECT /*/"}) {
    const Error error = RefusalOf(script);
    EXPECT_EQ(error.code(), "script_unterminated") << script;
    EXPECT_NE(error.message().find("line 2, column 8"), std::string::npos) << error.message();
  }
  EXPECT_EQ(RefusalOf("SELECT [a", Placeholder::kQuestion).code(), "script_unterminated");
}

TEST(SqlScript, RefusesToTouchTheTransaction) {
  for (const auto* word : {"BEGIN", "start transaction", "COMMIT", "End", "ABORT", "ROLLBACK TO a", "SAVEPOINT a",
                           "RELEASE a", "PREPARE TRANSACTION 'a'"}) {
    const Error error = RefusalOf("SELECT 1;\n/* now */ " + std::string(word));
    EXPECT_EQ(error.code(), "transaction_in_script") << word;
    EXPECT_NE(error.message().find("line 2, column 11"), std::string::npos) << error.message();
  }
  EXPECT_EQ(Parsed("SELECT CASE WHEN a THEN 1 END").size(), 1U);
  EXPECT_EQ(Parsed("begins()"), Texts{"begins()"});
}

TEST(SqlScript, RefusesToCopyThroughTheConnection) {
  const Error error = RefusalOf("SELECT 1;\n/* now */ Copy a TO STDOUT");
  EXPECT_EQ(error.code(), "copy_in_script");
  EXPECT_NE(error.message().find("line 2, column 11"), std::string::npos) << error.message();
  EXPECT_EQ(Parsed("SELECT copy FROM a").size(), 1U);
}

TEST(SqlScript, RefusesBytesThatAreNoText) {
  EXPECT_EQ(RefusalOf("SELECT '\xff'").code(), "invalid_utf8");
  EXPECT_EQ(RefusalOf(std::string_view("SELECT '\0'", 10)).code(), "nul_in_text");
}

TEST(SqlScript, KeepsEverythingThatIsNoParameter) {
  EXPECT_TRUE(rc::check("text outside parameters survives", [] {
    const auto style = *rc::gen::element(Placeholder::kDollar, Placeholder::kQuestion);
    // Without quotes, so that it can stand inside all of them.
    const auto inside = [] {
      return *rc::gen::container<std::string>(rc::gen::elementOf(std::string(":key;: ab1$(-)\n[]?,=\\")));
    };
    const auto piece = [&]() -> std::string {
      const std::string text = inside();
      switch (*rc::gen::inRange(0, style == Placeholder::kDollar ? 10 : 8)) {
        case 0:
          return "'" + text + "''" + inside() + "'";
        case 1:
          return "\"" + text + "\"\"\"";
        case 2:
          return "-- '" + std::string(text.substr(0, text.find('\n'))) + "\n";
        case 3:
          return "/* '\"" + text + "*/";
        case 4:
          return "x::text";
        case 5:
          return "a := 1";
        case 6:
          return style == Placeholder::kDollar ? "a[1:n]" : "[" + std::string(text.substr(0, text.find(']'))) + "]";
        case 7:
          return "word_1";
        case 8:
          return "$t$" + text + "$$ '$t$";
        default:
          return "/* /*" + text + "*/ :key */";
      }
    };
    const auto names = SqlParameterNames();
    Texts expected;
    std::string script;
    const int statements = *rc::gen::inRange(1, 4);
    for (int i = 0; i < statements; ++i) {
      std::string text = "SELECT";
      script += (i == 0 ? "" : " ;\n") + text;
      int number = 0;
      for (int pieces = *rc::gen::inRange(0, 8); pieces > 0; --pieces) {
        if (*rc::gen::arbitrary<bool>()) {
          script += " :" + std::string(names[*rc::gen::inRange<std::size_t>(0, names.size())]);
          text += (style == Placeholder::kDollar ? " $" : " ?") + std::to_string(++number);
        } else {
          const std::string same = piece();
          script += " " + same;
          text += " " + same;
        }
      }
      while (text.back() == '\n') text.pop_back();
      while (text.back() == ' ') text.pop_back();
      expected.push_back(text);
    }
    RC_LOG() << script << "\n";
    RC_ASSERT(Parsed(script, style) == expected);
  }));
}

TEST(SqlScript, NeverDoesMoreThanRefuseAnyText) {
  EXPECT_TRUE(rc::check("any text", [] {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("'\"$:;-*/[]`?E\\e\n aT1=\x01\xc3\xa4")));
    for (const auto style : {Placeholder::kDollar, Placeholder::kQuestion}) {
      const auto parsed = SqlScript::Parse(text, style);
      if (!parsed) RC_ASSERT(parsed.error().kind() == ErrorKind::kRejected);
    }
  }));
}

// ---- values ----

Envelope BareEvent() {
  Envelope event;
  event.id = *EventId::Parse("018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f");
  event.type = "OrderPlaced";
  event.topic = "orders";
  event.key = "o-1";
  event.occurred_at = *ParseRfc3339("2024-05-06T07:08:09.123456Z");
  event.payload = R"({"id":42})";
  event.payload_hash = Sha256(event.payload);
  return event;
}

const MessageContext kContext{.topic = "prod.orders", .partition = 3, .offset = 1234567890123, .consumer = "billing"};

SqlValue Value(std::string_view name, const Envelope& event) {
  return ValueOf(*ParseSqlParameter(name), event, kContext);
}

TEST(SqlParameter, HasANameThatIsReadBack) {
  for (const std::string_view name : SqlParameterNames()) {
    const auto parameter = ParseSqlParameter(name);
    ASSERT_TRUE(parameter) << name;
    EXPECT_EQ(ToString(*parameter), name);
  }
  EXPECT_FALSE(ParseSqlParameter(""));
  EXPECT_FALSE(ParseSqlParameter("KEY"));
}

TEST(SqlParameter, IsNullForWhatTheEventDoesNotHave) {
  for (const auto* name : {"tenant", "aggregate_type", "aggregate_id", "aggregate_version", "correlation_id",
                           "causation_id", "traceparent", "tracestate", "producer", "schema_id", "content_type"}) {
    EXPECT_EQ(Value(name, BareEvent()), SqlValue{}) << name;
  }
}

TEST(SqlParameter, IsTheFieldItIsCalled) {
  Envelope event = BareEvent();
  event.kind = EventKind::kCommand;
  event.schema_version = 3;
  event.tenant = "t1";
  event.aggregate = {.type = "order", .id = "o-7", .version = std::numeric_limits<std::int64_t>::max()};
  event.correlation_id = "co";
  event.causation_id = "ca";
  event.traceparent = "00-a";
  event.tracestate = "x=1";
  event.producer = "shop";
  event.schema_id = "17";
  event.content_type = "application/json";
  event.headers = {{"region", "eu"}, {"quote", "\""}};
  const std::vector<std::pair<std::string_view, SqlValue>> expected = {
      {"event_id", "018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f"},
      {"tenant", "t1"},
      {"kind", "command"},
      {"type", "OrderPlaced"},
      {"version", std::int64_t{3}},
      {"key", "o-1"},
      {"topic", "prod.orders"},
      {"aggregate_type", "order"},
      {"aggregate_id", "o-7"},
      {"aggregate_version", std::numeric_limits<std::int64_t>::max()},
      {"correlation_id", "co"},
      {"causation_id", "ca"},
      {"traceparent", "00-a"},
      {"tracestate", "x=1"},
      {"producer", "shop"},
      {"schema_id", "17"},
      {"content_type", "application/json"},
      {"payload", R"({"id":42})"},
      {"payload_bytes", SqlBytes{R"({"id":42})"}},
      {"payload_hash", ToHex(Sha256(R"({"id":42})"))},
      {"headers", R"({"region":"eu","quote":"\""})"},
      {"occurred_at", "2024-05-06T07:08:09.123456Z"},
      {"partition", std::int64_t{3}},
      {"offset", std::int64_t{1234567890123}},
      {"consumer", "billing"},
  };
  EXPECT_EQ(expected.size(), SqlParameterNames().size());
  for (const auto& [name, value] : expected) EXPECT_EQ(Value(name, event), value) << name;
}

TEST(SqlParameter, GivesAPayloadThatIsNoTextAsBytes) {
  for (const std::string& payload : {std::string("\xff"), std::string("a\0b", 3)}) {
    Envelope event = BareEvent();
    event.payload = payload;
    EXPECT_EQ(Value("payload", event), SqlValue{SqlBytes{payload}});
    EXPECT_EQ(Value("payload_bytes", event), SqlValue{SqlBytes{payload}});
  }
}

TEST(MessageContext, IsMadeOfAMessage) {
  ReceivedMessage message;
  message.partition = {"orders", 7};
  message.offset = 9;
  const auto context = MessageContext::Of(message, "billing");
  EXPECT_EQ(context.topic, "orders");
  EXPECT_EQ(context.partition, 7);
  EXPECT_EQ(context.offset, 9);
  EXPECT_EQ(context.consumer, "billing");
}

// ---- running ----

// Remembers what it was asked and answers as told.
class ScriptedTransaction final : public HandlerTransaction {
 public:
  std::function<Result<std::int64_t>(const std::string&)> answer = [](const std::string&) { return std::int64_t{1}; };
  std::vector<std::pair<std::string, std::vector<SqlValue>>> executed;

  Result<std::int64_t> Execute(const std::string& sql, std::span<const SqlValue> values) override {
    executed.emplace_back(sql, std::vector(values.begin(), values.end()));
    return answer(sql);
  }
  Result<std::vector<std::vector<std::optional<std::string>>>> Query(const std::string&, std::span<const SqlValue>,
                                                                     std::size_t) override {
    return Unasked();
  }
  Result<std::vector<Appended>> Append(std::span<const NewEntry>) override { return Unasked(); }
  Result<std::int64_t> NextVersion(const AggregateName&) override { return Unasked(); }
  Result<std::int64_t> AdvanceVersion(const AggregateName&, std::int64_t) override { return Unasked(); }
  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim&) override { return Unasked(); }
  Status CompleteOnce(const IdempotencyClaim&, const StoredResponse&) override { return Unasked(); }
  Result<EnqueuedTask> EnqueueTask(const NewTask&) override { return Unasked(); }

 private:
  static Error Unasked() { return Error(ErrorKind::kMisuse, "unasked", "a script executes statements only"); }
};

TEST(RunScript, ExecutesAllStatementsWithTheirValues) {
  const auto script = ValueOrThrow(SqlScript::Parse("SELECT :key, :version; SELECT 2", Placeholder::kDollar));
  ScriptedTransaction transaction;
  EXPECT_EQ(RunScript(script, BareEvent(), kContext, transaction).kind, Decision::Kind::kDone);
  ASSERT_EQ(transaction.executed.size(), 2U);
  EXPECT_EQ(transaction.executed[0].first, "SELECT $1, $2");
  EXPECT_EQ(transaction.executed[0].second, (std::vector<SqlValue>{"o-1", std::int64_t{1}}));
  EXPECT_TRUE(transaction.executed[1].second.empty());
}

TEST(RunScript, StopsAtTheFirstErrorAndSaysWhatToDo) {
  const auto script = ValueOrThrow(SqlScript::Parse("SELECT 1;\nSELECT 2;\nSELECT 3", Placeholder::kDollar));
  const auto failing = [](ErrorKind kind) {
    ScriptedTransaction transaction;
    transaction.answer = [kind](const std::string& sql) {
      return sql == "SELECT 2" ? Result<std::int64_t>(Error(kind, "some_code", "no")) : std::int64_t{1};
    };
    return transaction;
  };
  for (const auto& [kind, expected] : {std::pair{ErrorKind::kRejected, Decision::Kind::kReject},
                                       {ErrorKind::kMisconfigured, Decision::Kind::kRetryLater}}) {
    ScriptedTransaction transaction = failing(kind);
    const Decision decision = RunScript(script, BareEvent(), kContext, transaction);
    EXPECT_EQ(decision.kind, expected);
    EXPECT_EQ(decision.code, "some_code");
    EXPECT_EQ(decision.message, "no (in the statement at line 2 of the script)");
    EXPECT_EQ(transaction.executed.size(), 2U);
  }
  for (const ErrorKind kind : {ErrorKind::kUnavailable, ErrorKind::kConflict, ErrorKind::kInDoubt, ErrorKind::kFenced,
                               ErrorKind::kCorrupt, ErrorKind::kCancelled, ErrorKind::kMisuse}) {
    ScriptedTransaction transaction = failing(kind);
    try {
      RunScript(script, BareEvent(), kContext, transaction);
      ADD_FAILURE() << ToString(kind) << " was not thrown";
    } catch (const SealaneException& thrown) {
      EXPECT_EQ(thrown.error().kind(), kind);
      EXPECT_EQ(thrown.error().code(), "some_code");
    }
  }
}

TEST(IsCopy, LooksAtTheFirstWordBehindCommentsAndSpace) {
  for (const char* statement : {"COPY a TO STDOUT", "/* a */ copy a FROM STDIN", "-- a\n;Copy(SELECT 1) TO STDOUT"}) {
    EXPECT_TRUE(IsCopy(statement)) << statement;
  }
  for (const char* statement : {"", "copyright", "INSERT INTO copy VALUES (1)", "-- copy"}) {
    EXPECT_FALSE(IsCopy(statement)) << statement;
  }
}

TEST(EndsTransaction, LooksAtTheFirstWordBehindCommentsAndSpace) {
  for (const char* statement :
       {"COMMIT", " \n end", "/* a /* b */ c */ rollback to x", "-- a\n-- b\nBegin", ";abort"}) {
    EXPECT_TRUE(EndsTransaction(statement)) << statement;
  }
  for (const char* statement : {"", "--", "/*", "/* commit", "-- commit", "SELECT 'commit'", "commits", "/* a */"}) {
    EXPECT_FALSE(EndsTransaction(statement)) << statement;
  }
}

}  // namespace
}  // namespace sealane
