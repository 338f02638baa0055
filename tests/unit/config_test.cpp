// Protects the configuration: which source wins, which mistakes are caught and how they are named, and that no secret
// is ever shown.

#include "config/config.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/key_place.hpp"
#include "config/values.hpp"
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

TEST_F(ConfigTest, AcceptsKnownSectionsWithNothingInThem) {
  File("[store]\n[broker]\n[broker.journal]\n[broker.kafka]\n[relay]\n[outbox]\n[log]\n");
  EXPECT_EQ(Loaded().Text(Key::kLogLevel), "info");
  File("[relays]\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:1: unknown key `relays`"));
  File("[route]\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:1: unknown key `route`")) << "a route has a name";
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
  EXPECT_EQ(config.store().password().Reveal(), "ca/na@ry 1");
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

TEST_F(ConfigTest, HasOneRouteUnlessToldOtherwise) {
  const Config config = Loaded();
  ASSERT_EQ(config.routes().size(), 1U);
  const Settings& route = config.routes().at("main");
  EXPECT_EQ(route.List(Key::kRouteStore), (std::vector<std::string>{"default"}));
  EXPECT_EQ(route.Text(Key::kRouteOrder), "key");
  EXPECT_EQ(config.Text(Key::kRelayListen), "127.0.0.1:9464");
}

TEST_F(ConfigTest, TakesNamedStoresBrokersAndRoutes) {
  File(
      "[store]\nurl = \"sqlite:a.db\"\n[stores.eu]\nurl = \"postgres://relay@eu/shop\"\nschema = \"outbox\"\n"
      "[broker]\nurl = \"null:\"\n[brokers.hook]\nurl = \"https://example.org/in\"\nhttp.timeout = \"2s\"\n"
      "[route.main]\nstore = [\"default\", \"eu\"]\nfilter.topics = [\"orders*\", \"mail\"]\n"
      "retry.first = \"2s\"\nretry.jitter = 0.25\nretry.attempts = 3\nfair = false\n"
      "[route.hook]\nbroker = \"hook\"\nstore = \"eu\"\ntopic = \"${aggregate_type}.events\"\n[route.plain]\n");
  const Config config = Loaded();
  EXPECT_EQ(config.FindStore("default")->Text(Key::kStoreUrl), "sqlite:a.db");
  EXPECT_EQ(config.FindStore("eu")->Text(Key::kStoreSchema), "outbox");
  EXPECT_EQ(config.FindStore("us"), nullptr);
  EXPECT_EQ(config.FindBroker("hook")->Duration(Key::kBrokerHttpTimeout), std::chrono::seconds{2});
  ASSERT_EQ(config.routes().size(), 3U);
  const Settings& route = config.routes().at("main");
  EXPECT_EQ(route.List(Key::kRouteStore), (std::vector<std::string>{"default", "eu"}));
  EXPECT_EQ(route.List(Key::kRouteFilterTopics), (std::vector<std::string>{"orders*", "mail"}));
  EXPECT_EQ(route.Duration(Key::kRouteRetryFirst), std::chrono::seconds{2});
  EXPECT_EQ(route.Decimal(Key::kRouteRetryJitter), 0.25);
  EXPECT_EQ(route.Integer(Key::kRouteRetryAttempts), 3);
  EXPECT_FALSE(route.Truth(Key::kRouteFair));
  EXPECT_EQ(config.routes().at("hook").Text(Key::kRouteTopic), "${aggregate_type}.events");
}

TEST_F(ConfigTest, TakesNamedSectionsFromVariables) {
  sources_.variables = {{"SEALANE_STORES__EU__URL", "sqlite:eu.db"},
                        {"SEALANE_ROUTE__MAIN__STORE", "eu, default"},
                        {"SEALANE_ROUTE__MAIN__FILTER__TYPES", "A,B*"},
                        {"SEALANE_BROKER__KAFKA__SECURITY_PROTOCOL", "SASL_SSL"},
                        {"SEALANE_BROKERS__HOOK__HTTP__HEADERS__X_TOKEN", "t"}};
  const Config config = Loaded();
  EXPECT_EQ(config.FindStore("eu")->Text(Key::kStoreUrl), "sqlite:eu.db");
  EXPECT_EQ(config.routes().at("main").List(Key::kRouteStore), (std::vector<std::string>{"eu", "default"}));
  EXPECT_EQ(config.routes().at("main").List(Key::kRouteFilterTypes), (std::vector<std::string>{"A", "B*"}));
  EXPECT_EQ(config.program().Table(kKafkaTable).at("security.protocol").value, "SASL_SSL");
  EXPECT_EQ(config.FindBroker("hook")->Table(kHttpHeaderTable).at("x-token").value, "t");
  sources_.variables = {{"SEALANE_ROUTE__MAIN__ORDR", "key"}};
  EXPECT_THAT(Refused(), HasSubstr("did you mean `SEALANE_ROUTE__MAIN__ORDER`?"));
}

TEST_F(ConfigTest, PassesPropertiesOfTheBrokerOn) {
  const std::string secret = Write("secret", "canary-6\n");
  File("[broker.kafka]\n\"sasl.password\" = \"${file:" + secret + "}\"\nsecurity.protocol = \"SASL_SSL\"\n" +
       "\"linger.ms\" = 5\n\"enable.idempotence\" = true\n[broker.http.headers]\nAuthorization = \"Bearer "
       "canary-7\"\n");
  const Config config = Loaded();
  const auto& properties = config.program().Table(kKafkaTable);
  EXPECT_EQ(properties.at("sasl.password").value, "canary-6");
  EXPECT_EQ(properties.at("security.protocol").value, "SASL_SSL");
  EXPECT_EQ(properties.at("linger.ms").value, "5");
  EXPECT_EQ(properties.at("enable.idempotence").value, "true");
  EXPECT_TRUE(config.warnings().empty());
  const std::string printed = PrintConfig(config, true);
  EXPECT_THAT(printed, Not(HasSubstr("canary")));
  EXPECT_THAT(printed, HasSubstr("broker.kafka.\"sasl.password\" = \"***\""));
  EXPECT_THAT(printed, HasSubstr("broker.kafka.\"security.protocol\" = \"SASL_SSL\""));
}

TEST_F(ConfigTest, WarnsOfAPasswordAmongTheProperties) {
  File("[broker.kafka]\n\"sasl.password\" = \"canary-8\"\n");
  const Config config = Loaded();
  ASSERT_EQ(config.warnings().size(), 1U);
  EXPECT_THAT(config.warnings()[0], HasSubstr("sealane.toml:2: broker.kafka.sasl.password holds a password"));
  EXPECT_THAT(config.warnings()[0], Not(HasSubstr("canary")));
}

TEST_F(ConfigTest, NamesTheLineOfMistakesInNamedSections) {
  File("[route.main]\nordr = \"key\"\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:2: unknown key `route.main.ordr`"));
  EXPECT_THAT(Refused(), HasSubstr("did you mean `route.main.order`?"));
  File("[stores.eu]\nulr = \"x.db\"\n");
  EXPECT_THAT(Refused(), HasSubstr("did you mean `stores.eu.url`?"));
  File("[route.main]\norder = \"kee\"\n");
  EXPECT_THAT(Refused(), HasSubstr("sealane.toml:2: route.main.order: `kee` is none of key|tenant|global|none"));
  File("[route.Main]\norder = \"key\"\n");
  EXPECT_THAT(Refused(), HasSubstr("`Main` is not a name"));
  File("[stores.default]\nurl = \"x.db\"\n");
  EXPECT_THAT(Refused(), HasSubstr("write [store]"));
  File("[route.main]\ntopic = \"${tpoic}\"\n");
  EXPECT_THAT(Refused(), HasSubstr("did you mean `${topic}`?"));
  File("[route.main.retry]\nattempts = \"3\"\n");
  EXPECT_THAT(Refused(), HasSubstr("route.main.retry.attempts is a whole number"));
  File("[route.main.retry]\njitter = 1.5\n");
  EXPECT_THAT(Refused(), HasSubstr("is not a number from 0 to 1"));
  File("[route.main]\nfilter.topics = [1]\n");
  EXPECT_THAT(Refused(), HasSubstr("route.main.filter.topics is a list of texts"));
  File("[broker.kafka]\n\"acks\" = [\"all\"]\n");
  EXPECT_THAT(Refused(), HasSubstr("broker.kafka.acks is a text, a number or a truth"));
  File("[broker]\nurl = \"kafak://h\"\n");
  EXPECT_THAT(Refused(), HasSubstr("did you mean `kafka:`?"));
  File("[relay]\nlisten = \"everywhere\"\n");
  EXPECT_THAT(Refused(), HasSubstr("is not an address to listen on"));
}

TEST_F(ConfigTest, NoticesNamesThatLeadNowhere) {
  File("[stores.europe]\nurl = \"x.db\"\n[route.main]\nstore = \"euorpe\"\n[route.b]\nbroker = \"none-such\"\n");
  const std::string text = Refused();
  EXPECT_THAT(
      text, HasSubstr("sealane.toml:4: route.main.store: there is no store named `euorpe` (did you mean `europe`?)"));
  EXPECT_THAT(text, HasSubstr("sealane.toml:6: route.b.broker: there is no broker named `none-such`"));
}

TEST_F(ConfigTest, TakesTheNameOfAStoreAsFlag) {
  File("[stores.eu]\nurl = \"sqlite:eu.db\"\n");
  sources_.flags = {{Key::kStoreUrl, "--store", "eu"}};
  EXPECT_EQ(Loaded().store().Text(Key::kStoreUrl), "sqlite:eu.db");
  sources_.flags = {{Key::kStoreUrl, "--store", "us"}};
  const auto config = LoadConfig(sources_);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code(), "bad_usage");
  EXPECT_THAT(config.error().ToString(), HasSubstr("there is no store named `us`"));
}

TEST_F(ConfigTest, PrintsNamedSectionsSoThatTheyCanBeReadAgain) {
  File(
      "[stores.eu]\nurl = \"sqlite:eu.db\"\n[broker.kafka]\n\"linger.ms\" = 5\n[route.b]\nstore = \"eu\"\n"
      "filter.types = [\"A\", \"B\"]\nretry.attempts = 4\nretry.factor = 1.5\n");
  const std::string printed = PrintConfig(Loaded(), false);
  EXPECT_THAT(printed, HasSubstr("route.b.filter.types = [\"A\", \"B\"]"));
  EXPECT_THAT(printed, HasSubstr("route.b.retry.factor = 1.5"));
  File(printed);
  EXPECT_EQ(PrintConfig(Loaded(), false), printed);
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
  EXPECT_EQ(VariableName(SpecOf(Key::kStoreConnectTimeout).name), "SEALANE_STORE__CONNECT_TIMEOUT");
}

TEST(ConfigurationDocument, IsWhatStandsInTheRepository) {
  std::ifstream file(SEALANE_TEST_SOURCE_DIR "/docs/configuration.md");
  const std::string stored{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(stored, ConfigurationDocument()) << "run: sealane config document > docs/configuration.md";
}

}  // namespace
}  // namespace sealane::cli
