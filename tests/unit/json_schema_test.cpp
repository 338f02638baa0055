// Protects the check of payloads against JSON Schemas: what fits passes, what does not is named, and nothing that
// comes from outside can crash or stall it.

#include "sealane/json_schema.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "sealane/outbox.hpp"

#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

constexpr const char* kOrder = R"({
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "required": ["id", "lines"],
  "additionalProperties": false,
  "properties": {
    "id": {"type": "integer", "minimum": 1},
    "code": {"type": "string", "pattern": "^[A-Z]+$"},
    "at": {"type": "string", "format": "date-time"},
    "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}}
  }
})";

Envelope Order(std::string payload, std::int32_t version = 1) {
  Envelope envelope;
  envelope.type = "OrderPlaced";
  envelope.schema_version = version;
  envelope.payload = std::move(payload);
  return envelope;
}

class JsonSchemasTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(schemas_.Add("OrderPlaced", 1, kOrder)); }

  void ExpectMismatch(std::string payload, std::string_view path, std::string_view reason = {}) {
    const Status checked = schemas_.Check(Order(std::move(payload)));
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().kind(), ErrorKind::kRejected);
    EXPECT_EQ(checked.error().code(), "schema_mismatch");
    EXPECT_EQ(checked.error().field(), "payload");
    EXPECT_NE(checked.error().message().find(std::string(" at ") + std::string(path) + ":"), std::string::npos)
        << checked.error().message();
    EXPECT_NE(checked.error().message().find(reason), std::string::npos) << checked.error().message();
  }

  JsonSchemas schemas_;
};

TEST_F(JsonSchemasTest, AcceptsWhatFits) {
  EXPECT_TRUE(schemas_.Check(Order(R"({"id": 7, "lines": [{"sku": "a"}]})")));
  EXPECT_TRUE(schemas_.Check(Order(R"({"id":9223372036854775807,"lines":[]})")));
}

TEST_F(JsonSchemasTest, NamesThePlaceAndTheReason) {
  ExpectMismatch(R"({"lines": []})", "/", "id");
  ExpectMismatch(R"({"id": 0, "lines": []})", "/id", "greater than or equal to 1");
  ExpectMismatch(R"({"id": 1, "lines": [{"sku": "a"}, {"sku": 5}]})", "/lines/1/sku");
  ExpectMismatch(R"({"id": 1, "lines": [], "extra": 1})", "/");
  ExpectMismatch(R"([])", "/");
  ExpectMismatch(R"({"id": 1, "lines": [], "code": "lower"})", "/code", "pattern");
}

TEST_F(JsonSchemasTest, RefusesWhatReadersDisagreeOn) {
  ExpectMismatch(R"({"id": 1, "id": 0, "lines": []})", "/", "comes twice");
  ExpectMismatch("not json", "/");
  ExpectMismatch("", "/");
  ExpectMismatch(std::string(100'000, '['), "/", "nested");
  ExpectMismatch("{\"id\":1,\"lines\":" + std::string(65, '[') + std::string(65, ']') + "}", "/", "nested");
  ExpectMismatch("{\"" + std::string(2'000, 'n') + "\":1}", "/", "longer than");
}

TEST_F(JsonSchemasTest, SurvivesLongTextsUnderAPattern) {
  // The usual regular expressions of libstdc++ recurse for every character and would end the process here.
  const std::string capitals(200'000, 'A');
  EXPECT_TRUE(schemas_.Check(Order(R"({"id":1,"lines":[],"code":")" + capitals + "\"}")));
  ExpectMismatch(R"({"id":1,"lines":[],"code":")" + capitals + "a\"}", "/code");
  EXPECT_TRUE(schemas_.Check(Order(R"({"id":1,"lines":[],"at":")" + std::string(200'000, '1') + "\"}")));
}

TEST_F(JsonSchemasTest, NeverReadsALargeNumberAsANegativeOne) {
  ASSERT_TRUE(schemas_.Add("Count", 1, R"({"type":"number","minimum":0})"));
  for (const char* number : {"9223372036854775807", "9223372036854775808", "18446744073709551615",
                             "123456789012345678901234567890", "1e300"}) {
    Envelope count = Order(number);
    count.type = "Count";
    EXPECT_TRUE(schemas_.Check(count)) << number;
  }
  Envelope huge = Order("1e999");
  huge.type = "Count";
  EXPECT_FALSE(schemas_.Check(huge));
}

TEST_F(JsonSchemasTest, BoundsTheDepthOfSchemasThatContainThemselves) {
  ASSERT_TRUE(schemas_.Add("Tree", 1, R"({"type":"array","items":{"$ref":"#"}})"));
  Envelope tree = Order("[[[[]]]]");
  tree.type = "Tree";
  EXPECT_TRUE(schemas_.Check(tree));
  tree.payload = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_FALSE(schemas_.Check(tree));
}

TEST_F(JsonSchemasTest, AcceptsOtherTypesAndVersionsUnlessASchemaIsRequired) {
  EXPECT_TRUE(schemas_.Check(Order("[]", 2)));
  JsonSchemas strict({.require_schema = true});
  ASSERT_TRUE(strict.Add("OrderPlaced", 1, kOrder));
  const Status checked = strict.Check(Order("[]", 2));
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code(), "schema_unknown");
}

TEST_F(JsonSchemasTest, RefusesBadSchemas) {
  for (const char* text :
       {"", "nonsense", "[]", "5", "{\"type\":5}", "{\"type\":\"nothing\"}", "{\"required\":\"id\"}",
        R"({"properties":{"a":{"pattern":"["}}})", R"({"patternProperties":{"(":{}}})",
        R"({"$ref":"http://127.0.0.1:1/other.json"})", R"({"$ref":"#/definitions/missing"})", R"({"a":1,"a":2})"}) {
    const Status added = schemas_.Add("Bad", 1, text);
    ASSERT_FALSE(added) << text;
    EXPECT_EQ(added.error().kind(), ErrorKind::kMisconfigured);
    EXPECT_EQ(added.error().code(), "invalid_schema") << text;
  }
  EXPECT_EQ(schemas_.Add("OrderPlaced", 1, kOrder).error().code(), "doubled_schema");
  EXPECT_FALSE(schemas_.Add("", 1, kOrder));
  EXPECT_FALSE(schemas_.Add("X", 0, kOrder));
  EXPECT_EQ(schemas_.size(), 1U);
}

TEST_F(JsonSchemasTest, KeepsPropertiesThatAreNamedLikeKeywords) {
  ASSERT_TRUE(schemas_.Add("Odd", 1,
                           R"({"properties":{"format":{"type":"string"},"const":{"pattern":"^a$"}},
                               "required":["format"],"not":{"const":{"format":"x"}}})"));
  Envelope odd = Order(R"({"format":"y"})");
  odd.type = "Odd";
  EXPECT_TRUE(schemas_.Check(odd));
  odd.payload = R"({"format":5})";
  EXPECT_FALSE(schemas_.Check(odd));
  odd.payload = R"({"format":"x"})";
  EXPECT_FALSE(schemas_.Check(odd));
  odd.payload = R"({"format":"y","const":"b"})";
  EXPECT_FALSE(schemas_.Check(odd));
}

TEST_F(JsonSchemasTest, IsAskedByTheOutboxAndLeavesTheBytesAlone) {
  const Outbox outbox({.schema_check = &schemas_});
  const std::string payload = "{ \"lines\" : [ ],\"id\":1, \"code\":\"\\u0041\" }";
  const auto entry = outbox.Admit({.topic = "t", .key = "k", .type = "OrderPlaced", .payload = payload});
  ASSERT_TRUE(entry) << entry.error().ToString();
  EXPECT_EQ(entry->envelope.payload, payload);
  const auto refused = outbox.Admit({.topic = "t", .key = "k", .type = "OrderPlaced", .payload = "{}"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), "schema_mismatch");
}

class SchemaFolderTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) { std::ofstream(folder() + "/" + name) << text; }
  const std::string& folder() const { return place_.folder(); }

 private:
  testing::SqliteFile place_;
};

TEST_F(SchemaFolderTest, LoadsEveryFileByTypeAndVersion) {
  Write("OrderPlaced.v1.json", kOrder);
  Write("shop.order.Paid.v12.json", R"({"type":"object"})");
  Write("README.md", "not a schema");
  JsonSchemas schemas;
  ASSERT_TRUE(schemas.LoadDirectory(folder()));
  EXPECT_EQ(schemas.size(), 2U);
  Envelope paid = Order("[]", 12);
  paid.type = "shop.order.Paid";
  EXPECT_FALSE(schemas.Check(paid));
}

TEST_F(SchemaFolderTest, RefusesNamesItCannotRead) {
  for (const char* name : {"OrderPlaced.json", "OrderPlaced.v0.json", "OrderPlaced.vx.json", ".v1.json"}) {
    Write(name, "{}");
    JsonSchemas schemas;
    const Status loaded = schemas.LoadDirectory(folder());
    ASSERT_FALSE(loaded) << name;
    EXPECT_EQ(loaded.error().code(), "schemas_unreadable");
    std::filesystem::remove(folder() + "/" + name);
  }
}

TEST_F(SchemaFolderTest, NamesTheFileThatIsBad) {
  Write("Bad.v1.json", "{");
  JsonSchemas schemas;
  const Status loaded = schemas.LoadDirectory(folder());
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().ToString().find("Bad.v1.json"), std::string::npos);
  EXPECT_EQ(schemas.LoadDirectory(folder() + "/nowhere").error().code(), "schemas_unreadable");
}

}  // namespace
}  // namespace sealane
