#include "serve/webhook.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "core/json_object.hpp"
#include "core/json_scan.hpp"

namespace sealane {
namespace {

// With the provider's name and a prefix in front it still fits into a key of the store.
constexpr std::size_t kIdMax = 900;

constexpr char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool SameName(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return Lower(x) == Lower(y); });
}

std::string Lowered(std::string_view text) {
  std::string lowered(text);
  std::transform(lowered.begin(), lowered.end(), lowered.begin(), Lower);
  return lowered;
}

std::optional<std::string> ValueOf(const WebhookValue& where, const WebhookHead& head, std::string_view body) {
  if (!where.header.empty()) {
    if (const auto value = head.Header(where.header); value && !value->empty()) return std::string(*value);
    if (where.field.empty()) return std::nullopt;
  }
  auto value = FindJsonText(body, where.field);
  return value && !value->empty() ? value : std::nullopt;
}

std::string PlaceOf(const WebhookValue& where) {
  return where.field.empty() ? "the header " + where.header : "the member " + where.field;
}

int StatusOf(SignatureVerdict verdict) {
  return verdict == SignatureVerdict::kMalformed ? 400 : 401;
}

WebhookAnswer RefuseSignature(SignatureVerdict verdict) {
  return RefuseWebhook(StatusOf(verdict), ToString(verdict), "the signature does not prove where this comes from");
}

Headers KeptHeaders(const WebhookRule& rule, const WebhookHead& head) {
  Headers kept;
  for (const std::string& name : rule.keep_headers) {
    if (const auto value = head.Header(name)) kept.push_back({Lowered(name), std::string(*value)});
  }
  return kept;
}

}  // namespace

std::optional<std::string_view> WebhookHead::Header(std::string_view name) const {
  std::optional<std::string_view> found;
  for (const auto& [given, value] : headers) {
    if (!SameName(given, name)) continue;
    if (found) return std::nullopt;
    found = value;
  }
  return found;
}

bool WebhookHead::Has(std::string_view name) const {
  return std::any_of(headers.begin(), headers.end(),
                     [&](const auto& header) { return SameName(header.first, name); });
}

WebhookAnswer RefuseWebhook(int status, std::string_view code, std::string_view message) {
  JsonObject inner;
  inner.Text("code", code);
  inner.Text("message", message);
  JsonObject outer;
  outer.Raw("error", std::move(inner).Close());
  return {.status = status, .code = std::string(code), .body = std::move(outer).Close() + '\n'};
}

std::optional<std::string> FindJsonText(std::string_view json, std::string_view path) {
  auto scanned = ScanJson(json);
  if (!scanned) return std::nullopt;
  JsonSlice slice = *scanned;
  while (true) {
    if (slice.type != JsonType::kObject) return std::nullopt;
    const std::size_t dot = std::min(path.find('.'), path.size());
    const std::string_view name = path.substr(0, dot);
    std::optional<JsonSlice> found;
    JsonMembers members(slice);
    while (true) {
      auto member = members.Next();
      if (!member) return std::nullopt;
      if (!*member) break;
      if ((*member)->name == name) found = (*member)->value;
    }
    if (!found) return std::nullopt;
    slice = *found;
    if (dot == path.size()) break;
    path.remove_prefix(dot + 1);
  }
  if (slice.type == JsonType::kNumber) return std::string(slice.bytes);
  if (slice.type != JsonType::kString) return std::nullopt;
  auto text = DecodeJsonString(slice);
  if (!text) return std::nullopt;
  return *std::move(text);
}

std::variant<const WebhookRule*, WebhookAnswer> JudgeWebhookHead(const WebhookHead& head,
                                                                 std::span<const WebhookRule> rules, Timestamp now) {
  const std::string_view path = std::string_view(head.target).substr(0, head.target.find('?'));
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const WebhookRule& r) { return r.path == path; });
  if (rule == rules.end()) return RefuseWebhook(404, "not_found", "there is nothing here");
  if (head.method != "POST") return RefuseWebhook(405, "method_not_allowed", "deliveries are posted");
  // What a compressed body means would have to be found out before its signature is known to be right.
  // Header() has no value for a header that came twice, so that is asked for apart.
  if (head.Has("content-encoding") && head.Header("content-encoding") != "identity") {
    return RefuseWebhook(415, "encoding_not_taken", "the body must not be compressed");
  }
  const SignatureVerdict verdict = CheckSignatureHead(rule->signature, head.Header(rule->signature.header), now);
  if (verdict != SignatureVerdict::kGood) return RefuseSignature(verdict);
  return &*rule;
}

std::variant<WebhookDelivery, WebhookAnswer> JudgeWebhook(const WebhookHead& head, std::string body,
                                                          const WebhookRule& rule, Timestamp now) {
  const SignatureVerdict verdict = CheckSignature(rule.signature, head.Header(rule.signature.header), body, now);
  if (verdict != SignatureVerdict::kGood) return RefuseSignature(verdict);
  if (body.empty()) return RefuseWebhook(400, "body_missing", "the request has no body");

  WebhookDelivery delivery{.rule = &rule, .id = {}, .body_hash = ToHex(Sha256(body)), .event = {}};
  if (rule.id.empty()) {
    delivery.id = delivery.body_hash;
  } else if (auto id = ValueOf(rule.id, head, body)) {
    delivery.id = *std::move(id);
  } else {
    return RefuseWebhook(400, "event_id_missing", PlaceOf(rule.id) + " should hold the event's id");
  }
  if (delivery.id.size() > kIdMax) {
    return RefuseWebhook(400, "event_id_too_long", fmt::format("an event's id has at most {} bytes", kIdMax));
  }
  Event& event = delivery.event;
  event.topic = rule.topic;
  event.tenant = rule.tenant;
  event.type = rule.fixed_type;
  if (!rule.type.empty()) {
    if (auto type = ValueOf(rule.type, head, body)) {
      event.type = *std::move(type);
    } else if (rule.fixed_type.empty()) {
      return RefuseWebhook(400, "event_type_missing", PlaceOf(rule.type) + " should hold the event's type");
    }
  }
  event.key = delivery.id;
  if (!rule.key_field.empty()) {
    if (auto key = FindJsonText(body, rule.key_field); key && !key->empty()) event.key = *std::move(key);
  }
  event.content_type = std::string(head.Header("content-type").value_or("application/octet-stream"));
  if (event.content_type.empty()) event.content_type = "application/octet-stream";
  event.headers = KeptHeaders(rule, head);
  event.headers.push_back({"hook-provider", rule.provider});
  event.headers.push_back({"hook-id", delivery.id});
  event.payload = std::move(body);
  return delivery;
}

}  // namespace sealane
