// Protects the configuration: which source wins, which mistakes are caught and how they are named, and that no secret
// is ever shown.

#include "config/config.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/variables.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ConfigTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = place_.folder() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  void File(const std::string& text) { sources_.file = Write("sealane.toml", text); }

  Config Loaded() {
    auto config = LoadConfig(sources_);
    EXPECT_TRUE(config) << config.error().ToString();
    return config ? *std::move(config) : Config();
  }
  /// Message, problems and hint in one text.
  std::string Refused() {
    const auto config = LoadConfig(sources_);
    if (config) return "it was accepted";
    EXPECT_EQ(config.error().kind(), ErrorKind::kMisconfigured);
    EXPECT_EQ(config.error().code(), "bad_configuration");
    return config.error().ToString();
  }

  sealane::testing::SqliteFile place_;
  ConfigSources sources_;
};

TEST_F(ConfigTest, HasDefaultsForEverythingButTheStore) {
  const Config config = Loaded();
  EXPECT_EQ(config.Text(Key::kStoreUrl), "");
  EXPECT_EQ(config.Text(Key::kStoreSchema), "sealane");
  EXPECT_EQ(config.Duration(Key::kStoreConnectTimeout), std::chrono::seconds{5});
  EXPECT_EQ(config.Size(Key::kOutboxPayloadMax), 900U * 1024);
  EXPECT_TRUE(config.Truth(Key::kStoreCreateRoles));
  EXPECT_EQ(config.Of(Key::kLogLevel).origin, "default");
}

TEST_F(ConfigTest, PrefersFlagToVariableToFileToDefault) {
  File("[log]\nlevel = \"debug\"\nformat = \"json\"\n[store]\nschema = \"from_file\"\n");
  sources_.variables = {{"SEALANE_LOG__LEVEL", "warning"}, {"SEALANE_STORE__SCHEMA", "from_env"}, {"HOME", "/"}};
  sources_.flags = {{Key::kStoreSchema, "--schema", "from_flag"}};
  const Config config = Loaded();
  EXPECT_EQ(config.Text(Key::kStoreSchema), "from_flag");
  EXPECT_EQ(config.Of(Key::kStoreSchema).origin, "--schema");
  EXPECT_EQ(config.Text(Key::kLogLevel), "warning");
  EXPECT_EQ(config.Of(Key::kLogLevel).origin, "SEALANE_LOG__LEVEL");
  EXPECT_EQ(config.Text(Key::kLogFormat), "json");
  EXPECT_THAT(config.Of(Key::kLogFormat).origin, HasSubstr("sealane.toml:3"));
  EXPECT_EQ(config.Text(Key::kOutboxPayloadMax), "900KiB");
}

TEST_F(ConfigTest, LooksForTheFileInOrder) {
  const std::string first = Write("first.toml", "[log]\nlevel = \"error\"\n");
  const std::string second = Write("second.toml", "[log]\nlevel = \"debug\"\n");
  sources_.candidates = {place_.folder() + "/none.toml", first, second};
  EXPECT_EQ(Loaded().Text(Key::kLogLevel), "error");
  sources_.variables["SEALANE_CONFIG"] = second;
  EXPECT_EQ(Loaded().Text(Key::kLogLevel), "debug");
  sources_.file = first;
  EXPECT_EQ(Loaded().Text(Key::kLogLevel), "error");
}

TEST_F(ConfigTest, RefusesANamedFileThatIsNotThere) {
  sources_.file = "/nowhere/sealane.toml";
  EXPECT_THAT(Refused(), HasSubstr("cannot read /nowhere/sealane.toml: No such file"));
  sources_.file = place_.folder();
  EXPECT_THAT(Refused(), HasSubstr("cannot read"));
}

TEST_F(ConfigTest, NamesFileLineAndSuggestionForAnUnknownKey) {
  File("[store]\n\nulr = \"sqlite:x\"\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:3: unknown key `store.ulr`"));
  EXPECT_THAT(Refused(), HasSubstr("did you mean `store.url`?"));
}

TEST_F(ConfigTest, CatchesUnknownSectionsEvenWhenEmpty) {
  File("[stor]\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:1: unknown key `stor`"));
  File("[stor]\nurl = \"sqlite:x\"\n");
  EXPECT_THAT(Refused(), HasSubstr("did you mean `store.url`?"));
  File("store = 5\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:1: unknown key `store`"));
}

TEST_F(ConfigTest, NamesTheLineOfMalformedToml) {
  File("[store]\nurl = \n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:2: "));
  File("[log]\nlevel = \"info\"\nlevel = \"debug\"\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:3: "));
}

TEST_F(ConfigTest, NamesTheLineOfAWrongType) {
  File("[store]\nurl = 5\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:2: store.url is a store URL in quotes"));
  File("[store]\ncreate_roles = \"true\"\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:2: store.create_roles is true or false"));
  File("[log]\nlevel = [\"info\"]\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:2: log.level"));
  File("[store]\nconnect_timeout = 1979-05-27\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:2: store.connect_timeout"));
}

TEST_F(ConfigTest, NamesTheLineOfABadUnit) {
  File("[store]\nconnect_timeout = 5\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:2: store.connect_timeout: `5` has no unit"));
  EXPECT_THAT(Refused(), HasSubstr("\"5s\""));
  File("[outbox]\npayload_max = \"5 parsecs\"\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:2: outbox.payload_max"));
  File("[store]\nconnect_timeout = 0\n");
  EXPECT_THAT(Refused(), HasSubstr("must not be 0"));
  File("[store]\nstatement_timeout = 0\n");
  EXPECT_EQ(Loaded().Duration(Key::kStoreStatementTimeout).count(), 0);
}

TEST_F(ConfigTest, ChecksChoicesNamesAndUrls) {
  File("[log]\nlevel = \"warnnig\"\n");
  EXPECT_THAT(Refused(), HasSubstr("did you mean `warning`?"));
  File("[store]\nschema = \"a;drop table x\"\n");
  EXPECT_THAT(Refused(), HasSubstr("is not a schema name"));
  File("[store]\nurl = \"mysql://u:canary-1@h/d\"\n");
  EXPECT_THAT(Refused(), HasSubstr("is not a store URL"));
  EXPECT_THAT(Refused(), Not(HasSubstr("canary")));
}

TEST_F(ConfigTest, ReportsAllProblemsTogether) {
  File("[store]\nulr = \"x\"\nconnect_timeout = 5\n[log]\nlevel = \"loud\"\n");
  sources_.variables = {{"SEALANE_LOG__FROMAT", "json"}};
  const std::string text = Refused();
  EXPECT_THAT(text, HasSubstr("4 problems in the configuration"));
  EXPECT_THAT(text, HasSubstr("sealane.toml:2: "));
  EXPECT_THAT(text, HasSubstr("sealane.toml:3: "));
  EXPECT_THAT(text, HasSubstr("sealane.toml:5: "));
  EXPECT_THAT(text,
              HasSubstr("environment: unknown variable `SEALANE_LOG__FROMAT` (did you mean `SEALANE_LOG__FORMAT`?)"));
}

TEST_F(ConfigTest, CatchesMisspeltVariables) {
  sources_.variables = {{"SEALANE_STORE_URL", "sqlite:x.db"}};
  EXPECT_THAT(Refused(), HasSubstr("did you mean `SEALANE_STORE__URL`?"));
  sources_.variables = {{"SEALANE_STORE__CONNECT_TIMEOUT", "soon"}};
  EXPECT_THAT(Refused(),
              HasSubstr("SEALANE_STORE__CONNECT_TIMEOUT: store.connect_timeout: `soon` is not a duration"));
}

TEST_F(ConfigTest, TakesAnEmptyVariableAsNotSet) {
  File("[log]\nlevel = \"error\"\n");
  sources_.variables = {{"SEALANE_LOG__LEVEL", ""}};
  EXPECT_EQ(Loaded().Text(Key::kLogLevel), "error");
}

TEST(Variables, LeavesThoseOfOthersAlone) {
  for (const char* name : {"SEALANE_TEST_POSTGRES", "SEALANE_SERVICE_HOST", "SEALANE_SERVICE_PORT",
                           "SEALANE_SERVICE_PORT_HTTP", "SEALANE_PORT", "SEALANE_PORT_8080_TCP_ADDR",
                           "SEALANE_DB_PORT_5432_TCP", "SEALANE_CONFIG", "PATH", "XSEALANE_LOG__LEVEL"}) {
    EXPECT_FALSE(IsOurVariable(name)) << name;
  }
  for (const char* name : {"SEALANE_STORE__URL", "SEALANE_STORE_URL", "SEALANE_X", "SEALANE_RELAY__PORT"}) {
    EXPECT_TRUE(IsOurVariable(name)) << name;
  }
}

TEST_F(ConfigTest, TakesABadFlagAsBadUsage) {
  sources_.flags = {{Key::kStoreConnectTimeout, "--timeout", "5"}};
  const auto config = LoadConfig(sources_);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code(), "bad_usage");
  EXPECT_EQ(config.error().field(), "--timeout");
}

TEST_F(ConfigTest, ReadsSecretsFromFiles) {
  const std::string secret = Write("secret", "ca/na@ry 1\n");
  File("[store]\nurl = \"postgres://app:${file:" + secret + "}@db/shop\"\npassword_file = \"" + secret + "\"\n");
  const Config config = Loaded();
  EXPECT_EQ(config.Text(Key::kStoreUrl), "postgres://app:ca%2Fna%40ry%201@db/shop");
  EXPECT_EQ(config.password().Reveal(), "ca/na@ry 1");
  EXPECT_TRUE(config.warnings().empty());
  const std::string whole = Write("url", "sqlite:/tmp/x.db\r\n");
  File("[store]\nurl = \"${file:" + whole + "}\"\n");
  EXPECT_EQ(Loaded().Text(Key::kStoreUrl), "sqlite:/tmp/x.db");
}

TEST_F(ConfigTest, NamesThePlaceOfASecretThatCannotBeRead) {
  File("[store]\nurl = \"postgres://app:${file:/nowhere/x}@db/shop\"\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:2: store.url: cannot read /nowhere/x"));
  File("[store]\npassword_file = \"/nowhere/y\"\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:2: store.password_file: cannot read /nowhere/y"));
  File("[store]\nurl = \"postgres://${env:X}@db/shop\"\n");
  EXPECT_THAT(Refused(), HasSubstr("${file:/path"));
  File("[store]\npassword_file = \"" + Write("empty", "\n") + "\"\n");
  EXPECT_THAT(Refused(), HasSubstr("it is empty"));
}

TEST_F(ConfigTest, AcceptsAPasswordInTheFileWithAWarning) {
  File("[store]\nurl = \"postgres://app:canary-2@db/shop\"\n");
  const Config config = Loaded();
  EXPECT_EQ(config.Text(Key::kStoreUrl), "postgres://app:canary-2@db/shop");
  ASSERT_EQ(config.warnings().size(), 1U);
  EXPECT_THAT(config.warnings()[0], HasSubstr("sealane.toml:2: store.url holds a password"));
  EXPECT_THAT(config.warnings()[0], Not(HasSubstr("canary")));
}

TEST_F(ConfigTest, PrintsNoSecrets) {
  const std::string secret = Write("secret", "canary-3\n");
  File("[store]\nurl = \"postgres://app:canary-4@db/shop\"\npassword_file = \"" + secret + "\"\n");
  const std::string text = PrintConfig(Loaded(), true);
  EXPECT_THAT(text, Not(HasSubstr("canary")));
  EXPECT_THAT(text, HasSubstr("store.url = \"postgres://app:***@db/shop\""));
  sources_.variables = {{"SEALANE_STORE__URL", "postgres://app:${file:" + secret + "}@db/shop"}};
  EXPECT_THAT(PrintConfig(Loaded(), true), Not(HasSubstr("canary")));
}

TEST_F(ConfigTest, PrintsWhatCanBeReadAgain) {
  File("[store]\nurl = \"sqlite:./a b.db\"\nconnect_timeout = \"90s\"\ncreate_roles = false\n");
  const std::string printed = PrintConfig(Loaded(), true);
  File(printed);
  EXPECT_EQ(PrintConfig(Loaded(), false), [&] {
    std::string plain;
    for (std::size_t at = 0; at < printed.size();) {
      const std::size_t end = printed.find('\n', at);
      std::string line = printed.substr(at, end - at);
      if (!line.starts_with('#')) line = line.substr(0, line.find("  #"));
      line.erase(line.find_last_not_of(' ') + 1);
      plain += line + '\n';
      at = end + 1;
    }
    return plain;
  }());
}

TEST(Keys, NeverShowASecretKey) {
  constexpr KeySpec kSecretSpec = {Key::kOutboxProducer, "x.token", KeyType::kText, "", true, "A secret."};
  EXPECT_EQ(ShownValue(kSecretSpec, "canary-5"), "***");
}

TEST(Keys, AreConsistent) {
  for (const KeySpec& spec : Keys()) {
    EXPECT_EQ(FindKey(spec.name), &SpecOf(spec.key));
    EXPECT_FALSE(spec.doc.empty()) << spec.name;
    EXPECT_FALSE(DescribeType(spec).empty());
    if (!spec.default_text.empty()) {
      const auto checked = CheckValue(spec, spec.default_text);
      ASSERT_TRUE(checked) << spec.name;
      EXPECT_EQ(*checked, spec.default_text) << "the default is in its canonical spelling";
    }
  }
  EXPECT_EQ(VariableName(SpecOf(Key::kStoreConnectTimeout)), "SEALANE_STORE__CONNECT_TIMEOUT");
}

TEST(ConfigurationDocument, IsWhatStandsInTheRepository) {
  std::ifstream file(SEALANE_TEST_SOURCE_DIR "/docs/configuration.md");
  const std::string stored{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(stored, ConfigurationDocument()) << "run: sealane config document > docs/configuration.md";
}

}  // namespace
}  // namespace sealane::cli
