// Protects the way from the configuration and --target to the targets of a dispatcher.

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/target_setup.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class TargetSetupTest : public ::testing::Test {
 protected:
  Result<Config> Load(const std::string& text, std::map<std::string, std::string> variables = {}) const {
    const std::string path = place_.folder() + "/sealane.toml";
    std::ofstream(path, std::ios::trunc) << text;
    return LoadConfig({.file = path, .variables = std::move(variables), .candidates = {}, .flags = {}});
  }
  Config Loaded(const std::string& text, std::map<std::string, std::string> variables = {}) const {
    auto config = Load(text, std::move(variables));
    EXPECT_TRUE(config) << config.error().ToString();
    return config ? *std::move(config) : Config();
  }
  Result<TaskTargets> Opened(const std::string& text, const std::vector<std::string>& flags = {}) const {
    const Config config = Loaded(text);
    SEALANE_ASSIGN_OR_RETURN(const Config::Sections sections, SelectTargets(config, flags));
    return OpenTargets(sections);
  }
  std::string Refused(const std::string& text, const std::vector<std::string>& flags = {}) const {
    const auto opened = Opened(text, flags);
    return opened ? "it was accepted" : opened.error().ToString();
  }

  static constexpr const char* kBilling =
      "[target.billing]\nurl = \"https://billing.example\"\ntimeout = \"7s\"\nretry.preset = \"payments\"\n"
      "retry.attempts = 3\nin_doubt = \"hold\"\n[target.shipping]\nkind = \"workflow\"\nurl = "
      "\"http://c8.example\"\ntimeout = \"4s\"\n";

  sealane::testing::SqliteFile place_;
};

TEST_F(TargetSetupTest, OpensEveryTargetOfTheConfiguration) {
  const auto opened = Opened(kBilling);
  ASSERT_TRUE(opened) << opened.error().ToString();
  ASSERT_EQ(opened->size(), 2U);
  const TaskTarget& billing = opened->at("billing");
  EXPECT_EQ(billing.executor->time_limit(), seconds{7});
  EXPECT_EQ(billing.retry.attempts_max, 3);
  EXPECT_EQ(billing.retry.max, RetryPreset("payments")->max);
  EXPECT_FALSE(billing.resend_in_doubt);
  const TaskTarget& shipping = opened->at("shipping");
  EXPECT_EQ(shipping.executor->time_limit(), seconds{8}) << "it looks before it starts";
  EXPECT_TRUE(shipping.resend_in_doubt);
  EXPECT_EQ(shipping.retry, *RetryPreset("patient"));
}

TEST_F(TargetSetupTest, LetsFlagsChooseAndAddTargets) {
  EXPECT_EQ(Opened(kBilling, {"billing"})->size(), 1U);
  EXPECT_EQ(Opened("", {"mail=http://mail.example/api"})->count("mail"), 1U);
  const Config config = Loaded(kBilling);
  const auto moved = SelectTargets(config, {"billing=http://127.0.0.1:8080"});
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->at("billing").Text(Key::kTargetUrl), "http://127.0.0.1:8080");
  EXPECT_EQ(moved->at("billing").Text(Key::kTargetInDoubt), "hold") << "the rest of its section counts";
}

TEST_F(TargetSetupTest, SaysWhatIsWrong) {
  EXPECT_THAT(Refused(""), HasSubstr("no target is given"));
  EXPECT_THAT(Refused(kBilling, {"biling"}), HasSubstr("did you mean `billing`?"));
  EXPECT_THAT(Refused(kBilling, {"billing", "billing=http://x"}), HasSubstr("named twice"));
  EXPECT_THAT(Refused("", {"Mail=http://x"}), HasSubstr("not a name"));
  EXPECT_THAT(Refused("", {"mail=mailto:x"}), HasSubstr("no HTTP address"));
  EXPECT_THAT(Refused("[target.mail]\n"), HasSubstr("target.mail.url"));
  EXPECT_THAT(Refused("[target.mail]\nurl = \"http://x\"\nretry.first = \"9h\"\n"),
              HasSubstr("target.mail.retry.max"));
  EXPECT_THAT(Refused("[target.mail]\nurl = \"http://x\"\nheaders.X = \"a\\nb\"\n"), HasSubstr("line break"));
}

TEST_F(TargetSetupTest, RefusesUnknownKeysAndValuesWithTheirLine) {
  const auto told = [&](const std::string& text) {
    const auto config = Load(text);
    return config ? "it was accepted" : config.error().ToString();
  };
  EXPECT_THAT(told("[target.mail]\nulr = \"http://x\"\n"), HasSubstr("sealane.toml:2"));
  EXPECT_THAT(told("[target.mail]\nulr = \"http://x\"\n"), HasSubstr("did you mean `target.mail.url`?"));
  EXPECT_THAT(told("[target.mail]\nmethod = \"GET\"\n"), HasSubstr("POST|PUT|PATCH|DELETE"));
  EXPECT_THAT(told("[target.mail]\ntimeout = 5\n"), HasSubstr("has no unit"));
  EXPECT_THAT(told("[target.mail]\nurl = \"http://x?a=b\"\n"), HasSubstr("query"));
  EXPECT_THAT(told("[target.Mail]\nurl = \"http://x\"\n"), HasSubstr("not a name"));
}

TEST_F(TargetSetupTest, TakesSecretsByReferenceAndShowsNone) {
  const std::string secret = place_.folder() + "/token";
  std::ofstream(secret) << "geheim\n";
  const Config config = Loaded("[target.billing]\nurl = \"https://shop:${file:" + secret +
                                   "}@billing.example\"\nheaders.Authorization = \"${file:" + secret + "}\"\n",
                               {{"SEALANE_TARGET__BILLING__HEADERS__X_API_KEY", "geheim"}});
  const Settings& billing = config.targets().at("billing");
  EXPECT_EQ(billing.Text(Key::kTargetUrl), "https://shop:geheim@billing.example");
  const auto& headers = billing.Table(kTargetHeaderTable);
  EXPECT_EQ(headers.at("Authorization").value, "geheim");
  EXPECT_EQ(headers.at("x-api-key").value, "geheim");
  const std::string shown = PrintConfig(config, true);
  EXPECT_THAT(shown, Not(HasSubstr("geheim")));
  EXPECT_THAT(shown, HasSubstr("target.billing.headers.\"Authorization\" = \"***\""));
  EXPECT_THAT(shown, HasSubstr("target.billing.timeout = \"30s\""));
}

}  // namespace
}  // namespace sealane::cli
