// Protects the only thing that tells a provider's delivery from anybody's: the check of its signature.

#include "serve/webhook_signature.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/hex.hpp"
#include "base/hmac.hpp"

namespace sealane {
namespace {

using enum SignatureVerdict;

constexpr Timestamp kNow{std::chrono::seconds{1'700'000'000}};

std::string Mac(const std::string& secret, const std::string& message) {
  return ToHex(HmacSha256(secret, message));
}

SignatureRule GithubRule(std::vector<std::string> secrets = {"It's a Secret to Everybody"}) {
  SignatureRule rule{.scheme = SignatureScheme::kHmac, .header = "X-Hub-Signature-256", .prefix = "sha256="};
  for (std::string& secret : secrets) rule.secrets.emplace_back(std::move(secret));
  return rule;
}

SignatureRule StripeRule(std::vector<std::string> secrets = {"whsec"}) {
  SignatureRule rule{.scheme = SignatureScheme::kTimestamped, .header = "Stripe-Signature"};
  for (std::string& secret : secrets) rule.secrets.emplace_back(std::move(secret));
  return rule;
}

std::string Stripe(std::int64_t at, const std::string& body, const std::string& secret = "whsec") {
  return "t=" + std::to_string(at) + ",v1=" + Mac(secret, std::to_string(at) + "." + body);
}

// The example in GitHub's documentation of webhooks.
TEST(WebhookSignature, TakesWhatGithubDocuments) {
  EXPECT_EQ(CheckSignature(GithubRule(), "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
                           "Hello, World!", kNow),
            kGood);
}

TEST(WebhookSignature, RefusesAnotherBodyAndAnotherSecret) {
  const std::string value = "sha256=" + Mac("s1", "body");
  EXPECT_EQ(CheckSignature(GithubRule({"s1"}), value, "body", kNow), kGood);
  EXPECT_EQ(CheckSignature(GithubRule({"s1"}), value, "body ", kNow), kWrong);
  EXPECT_EQ(CheckSignature(GithubRule({"s1"}), value, "", kNow), kWrong);
  EXPECT_EQ(CheckSignature(GithubRule({"s2"}), value, "body", kNow), kWrong);
  EXPECT_EQ(CheckSignature(GithubRule({}), value, "body", kNow), kWrong);
}

TEST(WebhookSignature, RefusesEveryChangedDigit) {
  const std::string good = Mac("s1", "body");
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = bad[i] == '0' ? '1' : '0';
    EXPECT_EQ(CheckSignature(GithubRule({"s1"}), "sha256=" + bad, "body", kNow), kWrong) << i;
  }
}

TEST(WebhookSignature, AnyOfSeveralSecretsWillDo) {
  const SignatureRule rule = GithubRule({"new", "old"});
  EXPECT_EQ(CheckSignature(rule, "sha256=" + Mac("new", "b"), "b", kNow), kGood);
  EXPECT_EQ(CheckSignature(rule, "sha256=" + Mac("old", "b"), "b", kNow), kGood);
  EXPECT_EQ(CheckSignature(rule, "sha256=" + Mac("older", "b"), "b", kNow), kWrong);
}

TEST(WebhookSignature, ReadsBase64) {
  SignatureRule rule{.scheme = SignatureScheme::kHmac,
                     .header = "X-Shop",
                     .encoding = SignatureEncoding::kBase64,
                     .secrets = {Secret("s")}};
  const Sha256Digest mac = HmacSha256("s", "b");
  const std::string text = ToBase64({reinterpret_cast<const char*>(mac.data()), mac.size()});
  EXPECT_EQ(CheckSignature(rule, text, "b", kNow), kGood);
  EXPECT_EQ(CheckSignature(rule, Mac("s", "b"), "b", kNow), kMalformed);
}

TEST(WebhookSignature, SaysWhatIsMalformed) {
  const std::string mac = Mac("s1", "body");
  EXPECT_EQ(CheckSignature(GithubRule({"s1"}), std::nullopt, "body", kNow), kMissing);
  for (const std::string& value : std::vector<std::string>{
           std::string(), mac, "sha1=" + mac, "sha256=", "sha256=" + mac.substr(2), "sha256=" + mac + "00",
           "sha256=" + std::string(64, 'g'), "SHA256=" + mac, "sha256= " + mac, std::string("sha256=\0", 8)}) {
    EXPECT_EQ(CheckSignature(GithubRule({"s1"}), value, "body", kNow), kMalformed) << value;
  }
}

TEST(WebhookSignature, TakesATimestampedOneWithinItsTolerance) {
  for (const std::int64_t at : {1'700'000'000, 1'699'999'700, 1'700'000'300}) {
    EXPECT_EQ(CheckSignature(StripeRule(), Stripe(at, "{}"), "{}", kNow), kGood) << at;
  }
  for (const std::int64_t at : {1'699'999'699, 1'700'000'301, 0}) {
    EXPECT_EQ(CheckSignature(StripeRule(), Stripe(at, "{}"), "{}", kNow), kExpired) << at;
  }
}

TEST(WebhookSignature, TheTimeIsPartOfWhatIsSigned) {
  const std::string mac = Mac("whsec", "1699999000.{}");
  EXPECT_EQ(CheckSignature(StripeRule(), "t=1700000000,v1=" + mac, "{}", kNow), kWrong);
}

TEST(WebhookSignature, OneGoodValueOfSeveralWillDo) {
  const std::string good = Mac("whsec", "1700000000.{}");
  const std::string other = Mac("other", "1700000000.{}");
  EXPECT_EQ(CheckSignature(StripeRule(), "t=1700000000,v1=" + other + ",v1=" + good, "{}", kNow), kGood);
  EXPECT_EQ(CheckSignature(StripeRule(), "t=1700000000,v1=" + other + ",v0=" + good, "{}", kNow), kWrong);
  EXPECT_EQ(CheckSignature(StripeRule(), "v1=" + good + ", t=1700000000", "{}", kNow), kGood);
  EXPECT_EQ(CheckSignature(StripeRule({"x", "whsec"}), "t=1700000000,v1=" + good, "{}", kNow), kGood);
}

TEST(WebhookSignature, RefusesGarbageInATimestampedOne) {
  const std::string mac = Mac("whsec", "1700000000.{}");
  std::string many = "t=1700000000";
  for (int i = 0; i < 9; ++i) many += ",v1=" + mac;
  for (const std::string& value : std::vector<std::string>{
           std::string(), std::string("t=1700000000"), "v1=" + mac, "t=,v1=" + mac, "t=17e8,v1=" + mac,
           "t=-5,v1=" + mac, "t=1700000000 ,v1=x", "t=1700000000,v1=" + mac.substr(1),
           "t=1700000000,t=1700000001,v1=" + mac, "t=99999999999999999999,v1=" + mac, "t=1700000000;v1=" + mac, many,
           std::string(",,,,"), std::string("=")}) {
    EXPECT_EQ(CheckSignature(StripeRule(), value, "{}", kNow), kMalformed) << value;
  }
}

TEST(WebhookSignature, NoneBelievesEverybody) {
  const SignatureRule rule{.scheme = SignatureScheme::kNone};
  EXPECT_EQ(CheckSignature(rule, std::nullopt, "anything", kNow), kGood);
}

TEST(WebhookSignature, TheHeadAloneTellsEverythingButRightFromWrong) {
  const std::string wrong = "sha256=" + Mac("other", "body");
  EXPECT_EQ(CheckSignatureHead(GithubRule({"s1"}), wrong, kNow), kGood);
  EXPECT_EQ(CheckSignatureHead(GithubRule({"s1"}), std::nullopt, kNow), kMissing);
  EXPECT_EQ(CheckSignatureHead(StripeRule(), Stripe(1, "{}"), kNow), kExpired);
}

}  // namespace
}  // namespace sealane
