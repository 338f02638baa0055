#include "daemon/receiver_setup.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/key_place.hpp"
#include "config/secret_reference.hpp"
#include "core/wire.hpp"

namespace sealane::cli {
namespace {

/// What is known about a provider that many have.
struct Preset {
  SignatureScheme scheme;
  std::string_view header;
  std::string_view prefix;
  WebhookValue id;
  WebhookValue type;
};

Preset PresetOf(std::string_view signature) {
  if (signature == "github") {
    return {.scheme = SignatureScheme::kHmac,
            .header = "X-Hub-Signature-256",
            .prefix = "sha256=",
            .id = {.header = "X-GitHub-Delivery"},
            .type = {.header = "X-GitHub-Event"}};
  }
  if (signature == "stripe") {
    return {.scheme = SignatureScheme::kTimestamped,
            .header = "Stripe-Signature",
            .prefix = "",
            .id = {.field = "id"},
            .type = {.field = "type"}};
  }
  if (signature == "timestamped") {
    return {.scheme = SignatureScheme::kTimestamped, .header = "", .prefix = "", .id = {}, .type = {}};
  }
  if (signature == "none") {
    return {.scheme = SignatureScheme::kNone, .header = "", .prefix = "", .id = {}, .type = {}};
  }
  return {.scheme = SignatureScheme::kHmac, .header = "", .prefix = "", .id = {}, .type = {}};
}

Error Fault(const std::string& name, Key key, std::string_view message, std::string hint) {
  const std::string full = FullName(SpecOf(key).name, Section::kReceiver, name);
  return Error(ErrorKind::kMisconfigured, "bad_receiver", fmt::format("{}: {}", full, message))
      .WithHint(std::move(hint))
      .WithField(full);
}

std::string Or(const std::string& text, std::string_view otherwise) {
  return text.empty() ? std::string(otherwise) : text;
}

WebhookValue ValueOr(const std::string& header, const std::string& field, const WebhookValue& otherwise) {
  if (header.empty() && field.empty()) return otherwise;
  return {.header = header, .field = field};
}

Result<SignatureRule> SignatureOf(const std::string& name, const Settings& receiver, const Preset& preset,
                                  const std::map<std::string, std::string>& variables) {
  SignatureRule rule{.scheme = preset.scheme};
  const std::vector<std::string> secrets = receiver.List(Key::kReceiverSecrets);
  if (rule.scheme == SignatureScheme::kNone) {
    if (secrets.empty()) return rule;
    return Fault(name, Key::kReceiverSecrets, "there is a secret, and signature is none",
                 "say how the provider signs, or take the secret away");
  }
  rule.header = Or(receiver.Text(Key::kReceiverSignatureHeader), preset.header);
  if (rule.header.empty()) {
    return Fault(name, Key::kReceiverSignatureHeader, "is not set", "name the header that carries the signature");
  }
  rule.prefix = Or(receiver.Text(Key::kReceiverSignaturePrefix), preset.prefix);
  if (receiver.Text(Key::kReceiverSignatureEncoding) == "base64") rule.encoding = SignatureEncoding::kBase64;
  rule.tolerance = std::chrono::ceil<std::chrono::seconds>(receiver.Duration(Key::kReceiverTolerance));
  if (secrets.empty()) {
    return Fault(name, Key::kReceiverSecrets, "is not set", "name a secret by file:PATH or env:VARIABLE");
  }
  for (const std::string& reference : secrets) {
    auto secret = ReadSecretReference(reference, variables);
    if (!secret) return Fault(name, Key::kReceiverSecrets, secret.error().message(), secret.error().hint());
    rule.secrets.push_back(*std::move(secret));
  }
  return rule;
}

Status CheckKeptHeaders(const std::string& name, const std::vector<std::string>& headers) {
  for (auto header = headers.begin(); header != headers.end(); ++header) {
    if (IsReservedHeader(*header)) {
      return Fault(name, Key::kReceiverKeepHeaders, fmt::format("`{}` is reserved", EscapeForTerminal(*header)),
                   "leave it out");
    }
    if (std::find(headers.begin(), header, *header) != header) {
      return Fault(name, Key::kReceiverKeepHeaders, fmt::format("`{}` is there twice", EscapeForTerminal(*header)),
                   "name it once");
    }
  }
  return Ok();
}

std::string Lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace

Result<WebhookRule> WebhookRuleOf(const std::string& name, const Settings& receiver,
                                  const std::map<std::string, std::string>& variables) {
  if (!receiver.Has(Key::kReceiverTopic)) {
    return Fault(name, Key::kReceiverTopic, "is not set", "say which topic the events are for");
  }
  if (!receiver.Has(Key::kReceiverSignature)) {
    return Fault(name, Key::kReceiverSignature, "is not set",
                 "github, stripe, hmac or timestamped; none believes everybody who reaches the port");
  }
  const Preset preset = PresetOf(receiver.Text(Key::kReceiverSignature));
  WebhookRule rule;
  rule.provider = name;
  rule.path = Or(receiver.Text(Key::kReceiverPath), "/hooks/" + name);
  if (!rule.path.starts_with('/') || rule.path.find_first_of("?# ") != std::string::npos) {
    return Fault(name, Key::kReceiverPath, "is no path", "write it as /hooks/" + name);
  }
  rule.topic = receiver.Text(Key::kReceiverTopic);
  rule.tenant = receiver.Text(Key::kReceiverTenant);
  SEALANE_ASSIGN_OR_RETURN(rule.signature, SignatureOf(name, receiver, preset, variables));
  rule.id = ValueOr(receiver.Text(Key::kReceiverIdHeader), receiver.Text(Key::kReceiverIdField), preset.id);
  rule.fixed_type = receiver.Text(Key::kReceiverType);
  rule.type = ValueOr(receiver.Text(Key::kReceiverTypeHeader), receiver.Text(Key::kReceiverTypeField),
                      rule.fixed_type.empty() ? preset.type : WebhookValue{});
  if (rule.type.empty() && rule.fixed_type.empty()) rule.fixed_type = name;
  rule.key_field = receiver.Text(Key::kReceiverKeyField);
  for (const std::string& header : receiver.List(Key::kReceiverKeepHeaders)) {
    rule.keep_headers.push_back(Lowered(header));
  }
  SEALANE_RETURN_IF_ERROR(CheckKeptHeaders(name, rule.keep_headers));
  rule.accept_conflicts = receiver.Text(Key::kReceiverConflicts) == "accept";
  return rule;
}

Status CheckPaths(const std::vector<WebhookRule>& rules) {
  std::map<std::string, std::string> owners;
  for (const WebhookRule& rule : rules) {
    const auto [owner, fresh] = owners.emplace(rule.path, rule.provider);
    if (!fresh) {
      return Fault(rule.provider, Key::kReceiverPath, fmt::format("is that of {} too", owner->second),
                   "give each receiver a path of its own");
    }
  }
  return Ok();
}

}  // namespace sealane::cli
