// Protects the way to PostgreSQL and to Kafka over TLS, with real servers and certificates made for the test: what is
// right flows, and a certificate of another authority, one whose time is over, or one for another host holds
// everything with a message by which a person can act. No event is lost, parked or dead for it, and no secret is
// shown.

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "support/child_process.hpp"
#include "support/kafka_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

// Nothing else would ever contain it.
constexpr const char* kSecret = "Rumpelstilzchen";

/// A server of one test's own, started by a script with an option for TLS.
class TlsServer {
 public:
  TlsServer(const std::string& script, const std::string& folder, const Words& options)
      : script_(std::string(SEALANE_TEST_SOURCE_DIR) + "/scripts/" + script), folder_(folder) {
    Words words = {script_, "start", folder_};
    words.insert(words.end(), options.begin(), options.end());
    result_ = Run(words);
  }
  ~TlsServer() { Run({script_, "remove", folder_}); }
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  const CommandResult& result() const { return result_; }
  std::string Url(const std::string& suffix = ".url") const {
    std::ifstream file(folder_ + suffix);
    std::string url;
    std::getline(file, url);
    return url;
  }
  std::string Authority(const std::string& name = "ca") const { return folder_ + ".tls/" + name + ".pem"; }

 private:
  static CommandResult Run(const Words& words) {
    std::map<std::string, std::string> variables;
    for (const char* const name : {"HOME", "SEALANE_CACHE", "XDG_CACHE_HOME", "TMPDIR"}) {
      if (const char* const value = std::getenv(name)) variables[name] = value;
    }
    return ChildProcess(words, variables, "/").Finish();
  }

  std::string script_;
  std::string folder_;
  CommandResult result_;
};

class Tls : public ::testing::Test {
 protected:
  std::string FolderOf(const std::string& server) const {
    return fmt::format("{}/tls-{}-{}", SEALANE_TEST_BUILD_DIR, server, ::getpid());
  }
  CommandResult Sealane(Words words) const {
    words.insert(words.end(), {"-o", "json"});
    CommandResult result = RunSealane(words, {}, {{"USER", "ann"}}, file_.folder());
    EXPECT_THAT(result.out + result.err, Not(HasSubstr(kSecret)));
    return result;
  }
  static json ErrorOf(const CommandResult& result) {
    const std::string text = result.err.substr(0, result.err.find_last_not_of('\n') + 1);
    json document = json::parse(text.substr(text.rfind('\n') + 1), nullptr, false);
    if (document.is_object() && document.contains("error")) return document["error"];
    ADD_FAILURE() << "no error document: " << result.err;
    return {{"code", ""}, {"kind", ""}, {"message", ""}, {"hint", ""}};
  }
  void Emit(const std::string& store) const {
    const CommandResult emitted =
        Sealane({"emit", "--topic", "orders", "--key", "k", "--type", "T", "--payload", "{}", "--store", store});
    ASSERT_EQ(emitted.code, 0) << emitted.err;
  }
  CommandResult Relay(const std::string& store, const Words& broker) const {
    Words words = {"relay", "--until", "drained", "--timeout", "10s", "--store", store};
    words.insert(words.end(), broker.begin(), broker.end());
    return Sealane(words);
  }
  /// The states of all events, as `messages list` shows them.
  Words States(const std::string& store) const {
    const CommandResult listed = Sealane({"messages", "list", "--store", store});
    EXPECT_EQ(listed.code, 0) << listed.err;
    Words states;
    const json document = json::parse(listed.out);
    for (const json& message : document.at("messages")) states.push_back(message["status"]);
    return states;
  }

  SqliteFile file_;
};

class TlsPostgres : public Tls, public ::testing::WithParamInterface<std::string> {
 protected:
  /// The URL with a password that must not be shown.
  static std::string StoreOf(const TlsServer& server, const std::string& authority,
                             const std::string& mode = "verify-full") {
    std::string url = server.Url();
    url.insert(url.find('@'), std::string(":") + kSecret);
    return fmt::format("{}?sslmode={}&sslrootcert={}", url, mode, server.Authority(authority));
  }
};

TEST_F(TlsPostgres, ARightCertificateIsTrustedAndAnotherAuthorityIsNot) {
  const TlsServer server("test_postgres", FolderOf("pg"), {"--tls", "good"});
  ASSERT_EQ(server.result().code, 0) << server.result().err;
  const std::string store = StoreOf(server, "ca");
  const CommandResult up = Sealane({"migrate", "up", "--store", store});
  ASSERT_EQ(up.code, 0) << up.err;
  Emit(store);

  const Words journal = {"--broker", "journal:" + file_.folder() + "/journal.db"};
  const std::string wrong = StoreOf(server, "other-ca");
  for (const CommandResult& result : {Relay(wrong, journal), Sealane({"messages", "list", "--store", wrong}),
                                      Sealane({"dead", "list", "--store", wrong})}) {
    EXPECT_EQ(result.code, 10) << result.err;
    const json error = ErrorOf(result);
    EXPECT_EQ(error["code"], "store_tls_failed");
    EXPECT_EQ(error["kind"], "misconfigured");
    EXPECT_THAT(error["message"], HasSubstr("certificate verify failed"));
    EXPECT_THAT(error["hint"], HasSubstr("sslrootcert"));
  }
  EXPECT_EQ(States(store), Words{"PENDING"});
  const CommandResult relayed = Relay(store, journal);
  EXPECT_EQ(relayed.code, 0) << relayed.err;
  EXPECT_EQ(States(store), Words{"PUBLISHED"});
}

INSTANTIATE_TEST_SUITE_P(Certificates, TlsPostgres, ::testing::Values("expired", "elsewhere"),
                         [](const auto& test) { return test.param; });

TEST_P(TlsPostgres, AWrongCertificateIsRefusedWithTheReason) {
  const TlsServer server("test_postgres", FolderOf("pg"), {"--tls", GetParam()});
  ASSERT_EQ(server.result().code, 0) << server.result().err;
  // Without verification it would be taken.
  const std::string blind = StoreOf(server, "ca", "require").substr(0, StoreOf(server, "ca", "require").find("&"));
  const CommandResult up = Sealane({"migrate", "up", "--store", blind});
  ASSERT_EQ(up.code, 0) << up.err;
  Emit(blind);

  const CommandResult result =
      Relay(StoreOf(server, "ca"), {"--broker", "journal:" + file_.folder() + "/journal.db"});
  EXPECT_EQ(result.code, 10) << result.err;
  const json error = ErrorOf(result);
  EXPECT_EQ(error["code"], "store_tls_failed");
  EXPECT_EQ(error["kind"], "misconfigured");
  EXPECT_THAT(error["message"], GetParam() == "expired" ? HasSubstr("certificate verify failed")
                                                        : HasSubstr("does not match host name"));
  EXPECT_EQ(States(blind), Words{"PENDING"});
}

class TlsKafka : public Tls {
 protected:
  void SetUp() override {
    if (!KafkaIsInstalled() && std::getenv("CI") == nullptr) {
      GTEST_SKIP() << "NO KAFKA: this test did not run; ./dev setup gets it";
    }
    file_.Migrate();
  }
  std::string Store() const { return "sqlite:" + file_.path(); }
  Words Config(const std::string& url, const std::string& protocol, const std::string& authority) const {
    const std::string path = file_.folder() + "/sealane.toml";
    std::ofstream(path, std::ios::trunc)
        << fmt::format("[broker]\nurl = \"{}\"\n[broker.kafka]\n\"security.protocol\" = \"{}\"\n", url, protocol)
        << (authority.empty() ? "" : fmt::format("\"ssl.ca.location\" = \"{}\"\n", authority))
        << fmt::format("\"ssl.key.password\" = \"{}\"\n", kSecret);
    return {"--config", path};
  }
};

TEST_F(TlsKafka, OnlyARightCertificateIsTrustedAndNothingIsDeadForAWrongOne) {
  const TlsServer server("test_kafka", FolderOf("kafka"), {"--tls"});
  ASSERT_EQ(server.result().code, 0) << server.result().err;
  CreateTopic(server.Url(), "orders");
  Emit(Store());

  struct Case {
    std::string name;
    std::string url;
    std::string protocol;
    std::string authority;
    std::vector<std::string> codes;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"another authority", server.Url(".tls-good.url"), "SSL", "other-ca", {"tls_failed"}, "certificate"},
      {"expired", server.Url(".tls-expired.url"), "SSL", "ca", {"tls_failed"}, "certificate"},
      {"another host", server.Url(".tls-elsewhere.url"), "SSL", "ca", {"tls_failed"}, "certificate"},
      {"TLS to a plain listener", server.Url(), "SSL", "ca", {"tls_failed", "broker_unreachable"}, "SSL"},
      {"plain to a TLS listener", server.Url(".tls-good.url"), "PLAINTEXT", "", {"broker_unreachable"}, "SSL"},
  };
  for (const Case& one : cases) {
    const std::string authority = one.authority.empty() ? "" : server.Authority(one.authority);
    const CommandResult result = Relay(Store(), Config(one.url, one.protocol, authority));
    EXPECT_EQ(result.code, 11) << one.name << "\n" << result.err;
    const json error = ErrorOf(result);
    EXPECT_THAT(one.codes, ::testing::Contains(error["code"].get<std::string>())) << one.name;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(one.message)) << one.name;
    EXPECT_EQ(States(Store()), Words{"PENDING"}) << one.name << ": neither parked nor dead";
  }
  const CommandResult relayed = Relay(Store(), Config(server.Url(".tls-good.url"), "SSL", server.Authority()));
  EXPECT_EQ(relayed.code, 0) << relayed.err;
  EXPECT_EQ(States(Store()), Words{"PUBLISHED"});
  EXPECT_EQ(CountRecords(server.Url(), "orders"), 1U);
}

}  // namespace
}  // namespace sealane::testing
