// Protects the judgement of deliveries: what a request becomes, or what its sender is told.

#include "serve/webhook.hpp"

#include <gtest/gtest.h>

#include "base/hex.hpp"
#include "base/hmac.hpp"
#include "base/sha256.hpp"

namespace sealane {
namespace {

constexpr Timestamp kNow{std::chrono::seconds{1'700'000'000}};
constexpr std::string_view kBody = R"({"id":"evt_1","type":"charge","data":{"object":{"id":7,"customer":"c-1"}}})";

WebhookRule Rule() {
  WebhookRule rule{.provider = "shop", .path = "/hooks/shop", .topic = "shop"};
  rule.signature = {.scheme = SignatureScheme::kHmac, .header = "X-Sig", .secrets = {Secret("s")}};
  rule.id.field = "id";
  rule.type.field = "type";
  return rule;
}

WebhookHead Head(std::string_view body = kBody) {
  return {.method = "POST",
          .target = "/hooks/shop",
          .headers = {{"x-sig", ToHex(HmacSha256("s", body))}, {"Content-Type", "application/json"}}};
}

WebhookDelivery Taken(const WebhookRule& rule, const WebhookHead& head, std::string_view body = kBody) {
  auto judged = JudgeWebhook(head, std::string(body), rule, kNow);
  if (const auto* answer = std::get_if<WebhookAnswer>(&judged)) {
    ADD_FAILURE() << answer->status << " " << answer->body;
    return {};
  }
  return std::get<WebhookDelivery>(std::move(judged));
}

WebhookAnswer Refused(const WebhookRule& rule, const WebhookHead& head, std::string_view body = kBody) {
  auto judged = JudgeWebhook(head, std::string(body), rule, kNow);
  if (std::holds_alternative<WebhookDelivery>(judged)) {
    ADD_FAILURE() << "it was taken";
    return {};
  }
  return std::get<WebhookAnswer>(std::move(judged));
}

WebhookAnswer RefusedHead(const WebhookHead& head, const WebhookRule& rule) {
  const auto judged = JudgeWebhookHead(head, {&rule, 1}, kNow);
  if (std::holds_alternative<const WebhookRule*>(judged)) {
    ADD_FAILURE() << "it was let in";
    return {};
  }
  return std::get<WebhookAnswer>(judged);
}

TEST(Webhook, ADeliveryBecomesAnEvent) {
  const WebhookDelivery delivery = Taken(Rule(), Head());
  EXPECT_EQ(delivery.id, "evt_1");
  EXPECT_EQ(delivery.body_hash, ToHex(Sha256(kBody)));
  EXPECT_EQ(delivery.event.topic, "shop");
  EXPECT_EQ(delivery.event.type, "charge");
  EXPECT_EQ(delivery.event.key, "evt_1");
  EXPECT_EQ(delivery.event.payload, kBody);
  EXPECT_EQ(delivery.event.content_type, "application/json");
  EXPECT_EQ(delivery.event.headers, (Headers{{"hook-provider", "shop"}, {"hook-id", "evt_1"}}));
}

TEST(Webhook, ReadsTheKeyFromTheBody) {
  WebhookRule rule = Rule();
  rule.key_field = "data.object.customer";
  EXPECT_EQ(Taken(rule, Head()).event.key, "c-1");
  rule.key_field = "data.object.id";
  EXPECT_EQ(Taken(rule, Head()).event.key, "7");
  rule.key_field = "data.nothing";
  EXPECT_EQ(Taken(rule, Head()).event.key, "evt_1");
}

TEST(Webhook, ReadsIdAndTypeFromHeaders) {
  WebhookRule rule = Rule();
  rule.id = {.header = "X-Delivery"};
  rule.type = {.header = "X-Event"};
  WebhookHead head = Head();
  EXPECT_EQ(Refused(rule, head).code, "event_id_missing");
  head.headers.emplace_back("x-delivery", "d-1");
  EXPECT_EQ(Refused(rule, head).code, "event_type_missing");
  head.headers.emplace_back("X-EVENT", "push");
  EXPECT_EQ(Taken(rule, head).id, "d-1");
  EXPECT_EQ(Taken(rule, head).event.type, "push");
  // Which of two would count?
  head.headers.emplace_back("X-Delivery", "d-2");
  EXPECT_EQ(Refused(rule, head).code, "event_id_missing");
}

TEST(Webhook, WithoutAPlaceForTheIdItIsTheHashOfTheBody) {
  WebhookRule rule = Rule();
  rule.id = {};
  EXPECT_EQ(Taken(rule, Head()).id, ToHex(Sha256(kBody)));
}

TEST(Webhook, AFixedTypeIsForThoseThatSayNone) {
  WebhookRule rule = Rule();
  rule.fixed_type = "Hook";
  EXPECT_EQ(Taken(rule, Head()).event.type, "charge");
  EXPECT_EQ(Taken(rule, Head(R"({"id":"a"})"), R"({"id":"a"})").event.type, "Hook");
}

TEST(Webhook, KeepsOnlyTheHeadersItIsToldTo) {
  WebhookRule rule = Rule();
  rule.keep_headers = {"x-shop-region"};
  WebhookHead head = Head();
  head.headers.emplace_back("X-Shop-Region", "eu");
  head.headers.emplace_back("Cookie", "secret");
  EXPECT_EQ(Taken(rule, head).event.headers,
            (Headers{{"x-shop-region", "eu"}, {"hook-provider", "shop"}, {"hook-id", "evt_1"}}));
}

TEST(Webhook, TakesAnyBytesAsTheyAre) {
  WebhookRule rule = Rule();
  rule.id = {};
  rule.type = {};
  rule.fixed_type = "Hook";
  const std::string body("\x00\xff\r\n", 4);
  WebhookHead head = Head(body);
  head.headers.pop_back();
  const WebhookDelivery delivery = Taken(rule, head, body);
  EXPECT_EQ(delivery.event.payload, body);
  EXPECT_EQ(delivery.event.content_type, "application/octet-stream");
}

TEST(Webhook, RefusesABadSignatureBeforeItLooksAtTheBody) {
  EXPECT_EQ(Refused(Rule(), Head("other"), "{no json").status, 401);
  EXPECT_EQ(Refused(Rule(), Head("other"), "{no json").code, "signature_wrong");
}

TEST(Webhook, RefusesABodyWithoutItsId) {
  for (const std::string_view body : {"{no json", "[]", R"({"id":null,"type":"t"})", R"({"id":"","type":"t"})",
                                      R"({"type":"t"})", R"({"id":{"x":1},"type":"t"})", "7"}) {
    EXPECT_EQ(Refused(Rule(), Head(body), body).code, "event_id_missing") << body;
    EXPECT_EQ(Refused(Rule(), Head(body), body).status, 400) << body;
  }
  const std::string_view empty;
  EXPECT_EQ(Refused(Rule(), Head(empty), empty).code, "body_missing");
}

TEST(Webhook, RefusesAnIdThatNoStoreCanKeep) {
  const std::string body = R"({"type":"t","id":")" + std::string(901, 'x') + R"("})";
  EXPECT_EQ(Refused(Rule(), Head(body), body).code, "event_id_too_long");
}

TEST(Webhook, TheHeadAloneIsEnoughToRefuse) {
  const WebhookRule rule = Rule();
  WebhookHead head = Head();
  EXPECT_TRUE(std::holds_alternative<const WebhookRule*>(JudgeWebhookHead(head, {&rule, 1}, kNow)));
  head.target = "/hooks/shop?x=1";
  EXPECT_TRUE(std::holds_alternative<const WebhookRule*>(JudgeWebhookHead(head, {&rule, 1}, kNow)));
  head.target = "/hooks/shop/";
  EXPECT_EQ(RefusedHead(head, rule).status, 404);
  head = Head();
  head.method = "GET";
  EXPECT_EQ(RefusedHead(head, rule).status, 405);
  head = Head();
  head.headers.emplace_back("Content-Encoding", "gzip");
  EXPECT_EQ(RefusedHead(head, rule).status, 415);
  head = Head();
  head.headers.erase(head.headers.begin());
  EXPECT_EQ(RefusedHead(head, rule).status, 401);
  head = Head();
  head.headers.push_back(head.headers.front());
  EXPECT_EQ(RefusedHead(head, rule).code, "signature_missing");
  head = Head();
  head.headers.front().second = "nonsense";
  EXPECT_EQ(RefusedHead(head, rule).status, 400);
}

TEST(Webhook, RefusesEveryBodyThatMayBeCompressed) {
  const WebhookRule rule = Rule();
  for (const std::vector<std::string>& encodings : std::vector<std::vector<std::string>>{{"gzip, gzip"},
                                                                                         {"identity, gzip"},
                                                                                         {"gzip", "gzip"},
                                                                                         {"identity", "gzip"},
                                                                                         {"gzip", "identity"},
                                                                                         {"identity", "identity"}}) {
    WebhookHead head = Head();
    for (const std::string& encoding : encodings) head.headers.emplace_back("content-Encoding", encoding);
    const auto judged = JudgeWebhookHead(head, {&rule, 1}, kNow);
    const auto* const answer = std::get_if<WebhookAnswer>(&judged);
    ASSERT_NE(answer, nullptr) << encodings.size() << " headers, the first " << encodings[0];
    EXPECT_EQ(answer->status, 415);
    EXPECT_EQ(answer->code, "encoding_not_taken");
  }
  WebhookHead head = Head();
  head.headers.emplace_back("Content-Encoding", "identity");
  EXPECT_TRUE(std::holds_alternative<const WebhookRule*>(JudgeWebhookHead(head, {&rule, 1}, kNow)));
}

TEST(Webhook, NoAnswerRepeatsWhatCame) {
  const std::string body = R"({"id":"evt_1","secret":"s3cr3t"})";
  EXPECT_EQ(Refused(Rule(), Head(body), body).body.find("s3cr3t"), std::string::npos);
  EXPECT_EQ(Refused(Rule(), Head("x"), body).body.find("s3cr3t"), std::string::npos);
}

TEST(Webhook, FindsTextsAndNumbersInJson) {
  EXPECT_EQ(FindJsonText(R"({"a":{"b":"\u00fc"}})", "a.b"), "ü");
  EXPECT_EQ(FindJsonText(R"({"a":1.50})", "a"), "1.50");
  EXPECT_EQ(FindJsonText(R"({"a":"1","a":"2"})", "a"), "2");
  EXPECT_EQ(FindJsonText(R"({"a":true})", "a"), std::nullopt);
  EXPECT_EQ(FindJsonText(R"({"a":[1]})", "a.0"), std::nullopt);
  EXPECT_EQ(FindJsonText(R"({"a":"\ud800"})", "a"), std::nullopt);
  EXPECT_EQ(FindJsonText(R"({"":"x"})", ""), "x");
  EXPECT_EQ(FindJsonText(R"({"a":1)", "a"), std::nullopt);
}

}  // namespace
}  // namespace sealane
