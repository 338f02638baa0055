// Protects the only JSON reader that touches payloads: it takes exactly what RFC 8259 permits and changes nothing.

#include "core/json_scan.hpp"

#include <cstdlib>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

namespace sealane {
namespace {

// More cases than the default; RC_PARAMS in the environment still wins.
[[maybe_unused]] const int kMoreCases = setenv("RC_PARAMS", "max_success=2000", 0);

std::string Repeat(std::string_view piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

std::string MessageOf(std::string_view text) {
  const auto scanned = ScanJson(text);
  return scanned ? "accepted" : scanned.error().message();
}

JsonSlice Slice(std::string_view text) {
  const auto scanned = ScanJson(text);
  EXPECT_TRUE(scanned) << text;
  return *scanned;
}

std::vector<JsonMember> Members(std::string_view text) {
  std::vector<JsonMember> all;
  JsonMembers members(Slice(text));
  while (true) {
    auto member = members.Next();
    EXPECT_TRUE(member);
    if (!member || !*member) return all;
    all.push_back(**std::move(member));
  }
}

TEST(JsonScan, AcceptsEveryKindOfValue) {
  for (const auto* text : {"null",
                           "true",
                           "false",
                           "0",
                           "-0",
                           "12",
                           "-1.5",
                           "1e5",
                           "1E+5",
                           "2.5e-7",
                           "123456789012345678901234567890",
                           "\"\"",
                           "\"a\"",
                           "[]",
                           "{}",
                           "[1,2,3]",
                           "{\"a\":1,\"a\":2}",
                           " \t\r\n{ \"a\" : [ 1 , { } ] } \n",
                           "\"\\u0000\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                           "\"\\ud800\"",
                           "\"\x7f\"",
                           "\"\xc3\xa4\"",
                           "[[],{},[[]]]",
                           "1e999"}) {
    EXPECT_TRUE(ScanJson(text)) << text;
  }
}

TEST(JsonScan, RefusesAndSaysWhereAndWhatWasExpected) {
  EXPECT_EQ(MessageOf(""), "invalid JSON at byte 0: expected a value, the text ends");
  EXPECT_EQ(MessageOf("{\"a\" 1}"), "invalid JSON at byte 5: expected ':', found '1'");
  EXPECT_EQ(MessageOf("{\"a\":1,}"), "invalid JSON at byte 7: expected a name in double quotes, found '}'");
  EXPECT_EQ(MessageOf("{\"a\":1"), "invalid JSON at byte 6: expected ',' or '}', the text ends");
  EXPECT_EQ(MessageOf("[1 2]"), "invalid JSON at byte 3: expected ',' or ']', found '2'");
  EXPECT_EQ(MessageOf("[1,]"), "invalid JSON at byte 3: expected a value, found ']'");
  EXPECT_EQ(MessageOf("01"), "invalid JSON at byte 1: expected the end of the text, found '1'");
  EXPECT_EQ(MessageOf("1."), "invalid JSON at byte 2: expected a digit, the text ends");
  EXPECT_EQ(MessageOf("nul"), "invalid JSON at byte 0: expected 'null', found 'n'");
  EXPECT_EQ(MessageOf("\"\\x\""), "invalid JSON at byte 2: expected one of \"\\/bfnrtu after a backslash, found 'x'");
  EXPECT_EQ(MessageOf("\"\\u12G4\""), "invalid JSON at byte 5: expected a hex digit, found 'G'");
  EXPECT_EQ(MessageOf("\"a\nb\""),
            "invalid JSON at byte 2: expected '\"' or a character that is not a control character, found '\\n'");
  EXPECT_EQ(MessageOf("\"\xff\""), "invalid JSON at byte 1: the text is not UTF-8");
  EXPECT_EQ(MessageOf("\xef\xbb\xbf{}"), "invalid JSON at byte 0: a byte order mark is not part of JSON");
}

TEST(JsonScan, RefusesWhatOtherReadersLetPass) {
  for (const auto* text : {"{} {}",
                           "{a:1}",
                           "{'a':1}",
                           "[1,2,]",
                           "NaN",
                           "Infinity",
                           "-",
                           "+1",
                           ".5",
                           "1e",
                           "0x10",
                           "// x\n1",
                           "1 /* x */",
                           "\"\t\"",
                           "\v1",
                           "\xc2\xa0"
                           "1",
                           "tru",
                           "True",
                           "[",
                           "]",
                           "{\"a\"}",
                           "{1:2}",
                           "[1}",
                           "{\"a\":1]"}) {
    EXPECT_FALSE(ScanJson(text)) << text;
  }
  EXPECT_FALSE(ScanJson(std::string_view("1\0", 2)));
  EXPECT_FALSE(ScanJson(std::string_view("\"\0\"", 3)));
}

TEST(JsonScan, BoundsTheDepth) {
  EXPECT_TRUE(ScanJson(Repeat("[", 64) + Repeat("]", 64)));
  EXPECT_EQ(MessageOf(Repeat("[", 65) + Repeat("]", 65)),
            "invalid JSON at byte 64: objects and arrays nest deeper than 64");
  EXPECT_TRUE(ScanJson(Repeat("{\"a\":", 64) + "1" + Repeat("}", 64)));
  EXPECT_FALSE(ScanJson(Repeat("{\"a\":", 65) + "1" + Repeat("}", 65)));
  EXPECT_FALSE(ScanJson(Repeat("[", 10'000'000)));            // no stack to overflow
  EXPECT_TRUE(ScanJson("[" + Repeat("[[]],", 1000) + "1]"));  // wide is not deep
}

TEST(JsonScan, FindsTheValueInsideTheWhitespace) {
  const JsonSlice slice = Slice(" \n [1, 2] ");
  EXPECT_EQ(slice.bytes, "[1, 2]");
  EXPECT_EQ(slice.offset, 3U);
  EXPECT_EQ(slice.type, JsonType::kArray);
}

TEST(JsonMembers, GivesNamesValuesAndExactSpans) {
  const auto members = Members(R"({ "a" : 1 ,"\u0062":  [2, {}]  , "a":"x" })");
  ASSERT_EQ(members.size(), 3U);
  EXPECT_EQ(members[0].name, "a");
  EXPECT_EQ(members[0].name_offset, 2U);
  EXPECT_EQ(members[0].value.bytes, "1");
  EXPECT_EQ(members[0].value.offset, 8U);
  EXPECT_EQ(members[0].span, " 1 ");
  EXPECT_EQ(members[1].name, "b");
  EXPECT_EQ(members[1].value.type, JsonType::kArray);
  EXPECT_EQ(members[1].span, "  [2, {}]  ");
  EXPECT_EQ(members[2].name, "a");  // doubled names are the caller's to judge
  EXPECT_EQ(members[2].span, "\"x\" ");
}

TEST(JsonMembers, OfAnEmptyObjectAreNone) {
  EXPECT_TRUE(Members("{}").empty());
  EXPECT_TRUE(Members("{ \n }").empty());
}

TEST(JsonMembers, NestsWithPositionsInTheWholeText) {
  const auto outer = Members(R"({"a":{"b":  7}})");
  JsonMembers inner(outer.at(0).value);
  const auto member = inner.Next();
  ASSERT_TRUE(member && *member);
  EXPECT_EQ((*member)->value.offset, 12U);
}

TEST(JsonMembers, RefuseANameThatIsNotText) {
  JsonMembers members(Slice(R"({"\ud800":1})"));
  const auto member = members.Next();
  ASSERT_FALSE(member);
  EXPECT_EQ(member.error().message(), "invalid JSON at byte 2: half of a surrogate pair is not text");
}

TEST(DecodeJsonString, UnderstandsEveryEscape) {
  EXPECT_EQ(*DecodeJsonString(Slice(R"("\"\\\/\b\f\n\r\t")")), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(*DecodeJsonString(Slice(R"("A\u00e4\u20AC\ud83d\ude80z")")), "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80z");
  EXPECT_EQ(*DecodeJsonString(Slice(R"("\u0000")")), std::string(1, '\0'));
  EXPECT_EQ(*DecodeJsonString(Slice(R"("")")), "");
  EXPECT_EQ(*DecodeJsonString(Slice(R"("\\")")), "\\");
}

TEST(DecodeJsonString, RefusesHalfASurrogatePair) {
  for (const auto* text : {R"("ab\ud800")", R"("ab\udc00")", R"("ab\ud800\ud800")", R"("ab\ud800x")",
                           R"("ab\ude80\ud83d")", R"("ab\ud800\n")", R"("ab\ud800\u0041")"}) {
    const auto decoded = DecodeJsonString(Slice(text));
    ASSERT_FALSE(decoded) << text;
    EXPECT_NE(decoded.error().message().find("at byte 3"), std::string::npos) << decoded.error().message();
  }
}

TEST(DecodeJsonString, AgreesWithAnotherReader) {
  EXPECT_TRUE(rc::check("strings", [] {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(
        rc::gen::elementOf(std::vector<std::string>{"a", " ", "\\n", "\\\\", "\\\"", "\\u0041", "\\u00e4", "\\ud83d",
                                                    "\\ude80", "\xc3\xa4", "\xf0\x9f\x9a\x80", "\\u0000"}));
    std::string text = "\"";
    for (const std::string& piece : pieces) text += piece;
    text += "\"";
    const auto decoded = DecodeJsonString(Slice(text));
    const auto other = nlohmann::json::parse(text, nullptr, false);
    RC_ASSERT(decoded.has_value() == !other.is_discarded());
    if (decoded) RC_ASSERT(*decoded == other.get<std::string>());
  }));
}

TEST(DecodeJsonInteger, RoundsNothing) {
  EXPECT_EQ(*DecodeJsonInteger(Slice("-9223372036854775808")), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(*DecodeJsonInteger(Slice("9223372036854775807")), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(*DecodeJsonInteger(Slice("-0")), 0);
  for (const auto* text :
       {"9223372036854775808", "-9223372036854775809", "1.0", "1e3", "123456789012345678901234567890"}) {
    EXPECT_FALSE(DecodeJsonInteger(Slice(text))) << text;
  }
}

// Documents of all shapes, then damaged by up to three random edits, so that both verdicts are common.
rc::Gen<std::string> Space() {
  return rc::gen::element<std::string>("", "", "", " ", "\n", "\t ");
}
rc::Gen<std::string> Scalar() {
  return rc::gen::element<std::string>("null", "true", "false", "0", "-1", "1.25", "3e2", "1E-7",
                                       "99999999999999999999", "\"\"", "\"a\"", "\"\\n\\u00e4\"", "\"\xc3\xa4\"",
                                       "\"\\ud83d\\ude80\"", "\"{[,:]}\"");
}
std::string Document(int depth) {
  const int shape = depth == 0 ? 0 : *rc::gen::inRange(0, 3);
  if (shape == 0) return *Space() + *Scalar() + *Space();
  const int count = *rc::gen::inRange(0, 4);
  std::string text = *Space() + (shape == 1 ? "[" : "{") + *Space();
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += ",";
    if (shape == 2)
      text += *Space() + "\"" + *rc::gen::element<std::string>("a", "b", "", "\\u0061") + "\"" + *Space() + ":";
    text += Document(depth - 1);
  }
  return text + (shape == 1 ? "]" : "}") + *Space();
}
void Damage(std::string& text) {
  if (text.empty()) return;
  const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
  const char c = *rc::gen::elementOf(std::string("{}[]:,\"\\u0e-+.1 \n\x01\xc3\xa4tfn/"));
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      text[at] = c;
      break;
    case 1:
      text.insert(at, 1, c);
      break;
    case 2:
      text.erase(at, 1);
      break;
    default:
      text.resize(at);
      break;
  }
}

// Says why the other reader refused, to tell a real difference from the documented ones.
std::string OtherVerdict(const std::string& text) {
  try {
    return nlohmann::json::parse(text).is_discarded() ? "refused" : "accepted";
  } catch (const nlohmann::json::out_of_range&) {
    return "out of range";  // a number that a double cannot hold: only syntax counts here
  } catch (const nlohmann::json::parse_error& error) {
    return std::string(error.what()).find("surrogate") != std::string::npos ? "surrogate" : "refused";
  }
}

TEST(JsonScan, AgreesWithAnotherReaderOnRandomAndDamagedDocuments) {
  int accepted = 0;
  int refused = 0;
  EXPECT_TRUE(rc::check("verdict", [&] {
    std::string text = Document(4);
    const int edits = *rc::gen::inRange(0, 4);
    for (int i = 0; i < edits; ++i) Damage(text);
    const bool ours = ScanJson(text).has_value();
    const std::string theirs = OtherVerdict(text);
    if (theirs == "out of range" || theirs == "surrogate") return;
    RC_LOG() << text;
    RC_ASSERT(ours == (theirs == "accepted"));
    ++(ours ? accepted : refused);
  }));
  EXPECT_GT(accepted, 10);
  EXPECT_GT(refused, 10);
}

TEST(JsonScan, RefusesEveryTruncationOfAnObject) {
  const std::string text = R"({"a":[1,2.5e3,{"b":"\u00e4x"}],"c":null,"d":{"e":true}})";
  ASSERT_TRUE(ScanJson(text));
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(ScanJson(text.substr(0, size))) << size;
}

TEST(JsonScan, SurvivesAnyBytes) {
  EXPECT_TRUE(rc::check("bytes", [](const std::string& bytes) {
    const auto slice = ScanJson(bytes);
    if (!slice) RC_ASSERT(slice.error().code() == "invalid_json");
  }));
}

}  // namespace
}  // namespace sealane
