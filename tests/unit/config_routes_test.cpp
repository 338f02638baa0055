// Protects the way from the configuration to the options of each relay, and what makes a reload restart one.

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "connect/owner_name.hpp"
#include "daemon/route_setup.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class RouteSetupTest : public ::testing::Test {
 protected:
  Config Loaded(const std::string& text) const {
    const std::string path = place_.folder() + "/sealane.toml";
    std::ofstream(path, std::ios::trunc) << text;
    auto config = LoadConfig({.file = path, .variables = {}, .candidates = {}, .flags = {}});
    EXPECT_TRUE(config) << config.error().ToString();
    return config ? *std::move(config) : Config();
  }
  std::vector<RouteSetup> Planned(const std::string& text, const RouteSelection& selection = {}) const {
    auto setups = PlanRoutes(Loaded(text), selection);
    EXPECT_TRUE(setups) << setups.error().ToString();
    return setups ? *std::move(setups) : std::vector<RouteSetup>();
  }
  std::string Refused(const std::string& text, const RouteSelection& selection = {}) const {
    const auto setups = PlanRoutes(Loaded(text), selection);
    return setups ? "it was accepted" : setups.error().ToString();
  }

  static constexpr const char* kTwo =
      "[store]\nurl = \"a.db\"\n[stores.eu]\nurl = \"b.db\"\n[broker]\nurl = \"null:\"\n[brokers.j]\nurl = "
      "\"journal:j.db\"\n[route.main]\nstore = [\"default\", \"eu\"]\n[route.copy]\nbroker = \"j\"\n";

  sealane::testing::SqliteFile place_;
};

TEST_F(RouteSetupTest, RunsEveryRouteOnEveryStoreItNames) {
  const auto setups = Planned(kTwo);
  ASSERT_EQ(setups.size(), 3U);
  EXPECT_EQ(setups[0].label(), "default/copy");
  EXPECT_EQ(setups[0].broker.Text(Key::kBrokerUrl), "journal:j.db");
  EXPECT_EQ(setups[1].label(), "default/main");
  EXPECT_EQ(setups[2].label(), "eu/main");
  EXPECT_EQ(setups[2].store.Text(Key::kStoreUrl), "b.db");
}

TEST_F(RouteSetupTest, LetsFlagsChooseRoutesStoreAndBroker) {
  const auto one = Planned(kTwo, {.routes = {"copy"}});
  ASSERT_EQ(one.size(), 1U);
  const auto moved = Planned(kTwo, {.routes = {"main"}, .store = "eu", .broker = "j"});
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_EQ(moved[0].label(), "eu/main");
  EXPECT_EQ(moved[0].broker_name, "j");
  EXPECT_THAT(Refused(kTwo, {.routes = {"mian"}}), HasSubstr("did you mean `main`?"));
}

TEST_F(RouteSetupTest, TurnsSettingsIntoOptions) {
  const auto setups = Planned(
      "[broker]\nurl = \"null:\"\n[relay]\nlease = \"20s\"\nmemory_max = \"8MiB\"\nowner = \"r1\"\n[route.main]\n"
      "order = \"tenant\"\nprofile = \"cloudevents\"\nsource = \"/shop\"\ndead_letter_topic = \"dead\"\n"
      "dead_holds_followers = false\nfilter.tenants = [\"a*\"]\nretry.preset = \"brief\"\nretry.attempts = 0\n");
  ASSERT_EQ(setups.size(), 1U);
  const RouteOptions& options = setups[0].options;
  EXPECT_EQ(options.order, OrderMode::kTenant);
  EXPECT_EQ(options.profile, WireProfile::kCloudEvents);
  EXPECT_EQ(options.wire.source, "/shop");
  EXPECT_EQ(options.failures.dead_letter_topic, "dead");
  EXPECT_FALSE(options.failures.dead_holds_followers);
  EXPECT_EQ(options.filter.tenants, (std::vector<std::string>{"a*"}));
  EXPECT_EQ(options.failures.retry.first, milliseconds{100}) << "from the preset";
  EXPECT_EQ(options.failures.retry.attempts_max, 0) << "changed";
  EXPECT_EQ(options.lease_ttl, seconds{20});
  EXPECT_LE(options.page_bytes, options.memory_max / 4);
  EXPECT_EQ(setups[0].owner_base, "r1");
}

TEST_F(RouteSetupTest, RefusesWhatARelayWouldNotAccept) {
  EXPECT_THAT(Refused("[relay]\nlease = \"1s\"\n"), HasSubstr("has no broker"));
  EXPECT_THAT(Refused("[broker]\nurl = \"null:\"\n[relay]\nlease = \"5ms\"\n"), HasSubstr("route main"));
  EXPECT_THAT(Refused("[broker]\nurl = \"null:\"\n[route.main.retry]\nfirst = \"2h\"\n"),
              HasSubstr("longer than the longest"));
  EXPECT_THAT(Refused("[broker]\nurl = \"null:\"\n[route.main]\ntopic = \"t\"\ndead_letter_topic = \"t\"\n"),
              HasSubstr("the topic they failed on"));
  EXPECT_FALSE(CheckRoutes(Loaded("[relay]\nlease = \"5ms\"\n")));
}

TEST_F(RouteSetupTest, ChangesItsFingerprintOnlyForWhatConcernsIt) {
  const auto before = Planned(kTwo);
  const auto same = Planned(std::string(kTwo) + "[log]\nlevel = \"debug\"\n[relay]\nlisten = \"off\"\n");
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i].fingerprint, same[i].fingerprint);
  const auto retry = Planned(std::string(kTwo) + "retry.preset = \"brief\"\n");
  EXPECT_NE(before[0].fingerprint, retry[0].fingerprint) << "default/copy";
  EXPECT_EQ(before[1].fingerprint, retry[1].fingerprint);
  EXPECT_EQ(before[2].fingerprint, retry[2].fingerprint);
  const auto broker = Planned(std::string(kTwo) + "[broker.kafka]\n\"linger.ms\" = 1\n");
  EXPECT_EQ(before[0].fingerprint, broker[0].fingerprint);
  EXPECT_NE(before[1].fingerprint, broker[1].fingerprint);
  const auto poll = Planned(std::string(kTwo) + "[relay]\npoll_max = \"1s\"\n");
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NE(before[i].fingerprint, poll[i].fingerprint);
}

TEST(NewOwner, IsNewEveryTime) {
  SeededRandom random(1);
  const std::string first = NewOwner("host-1", random);
  EXPECT_TRUE(first.starts_with("host-1-"));
  EXPECT_NE(first, NewOwner("host-1", random));
}

}  // namespace
}  // namespace sealane::cli
