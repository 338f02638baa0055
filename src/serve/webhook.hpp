#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/event.hpp"

#include "serve/webhook_signature.hpp"

namespace sealane {

/// Where a value of an event is found in a delivery: in a header, in a member of the JSON body (`data.object.id`), or
/// nowhere when both are empty. The header wins.
struct WebhookValue {
  std::string header = {};
  std::string field = {};
  bool empty() const { return header.empty() && field.empty(); }
};

/// What one provider's deliveries look like and what becomes of them.
struct WebhookRule {
  std::string provider;  ///< names it, and keeps its event ids apart from those of others
  std::string path;      ///< `/hooks/NAME`
  std::string topic;
  std::string tenant = {};
  SignatureRule signature = {};
  WebhookValue id = {};    ///< empty: the SHA-256 of the body
  WebhookValue type = {};  ///< empty: fixed_type
  std::string fixed_type = {};
  std::string key_field = {};  ///< empty, or not in the body: the id
  std::vector<std::string> keep_headers = {};
  /// Whether an id that comes again with another body is answered like a repetition (200) instead of 409.
  bool accept_conflicts = false;
};

/// A request, its body apart.
struct WebhookHead {
  std::string method;
  std::string target;                                             ///< with its query, which is not looked at
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< in any case

  /// Empty when there is none of that name, or several.
  std::optional<std::string_view> Header(std::string_view name) const;
  /// Whether there is one of that name, or several.
  bool Has(std::string_view name) const;
};

/// What the provider gets.
struct WebhookAnswer {
  int status = 200;
  std::string code = {};  ///< of a refusal; what metrics count
  std::string body = {};
  bool retry_later = false;  ///< with Retry-After
};

/// A delivery that is genuine and whole: an event for the outbox.
struct WebhookDelivery {
  const WebhookRule* rule = nullptr;
  std::string id;         ///< the provider's
  std::string body_hash;  ///< hex SHA-256
  Event event;
};

WebhookAnswer RefuseWebhook(int status, std::string_view code, std::string_view message);

/// What can be said before the body is read: the rule it is for, or an answer. `rules` must outlive what comes back.
std::variant<const WebhookRule*, WebhookAnswer> JudgeWebhookHead(const WebhookHead& head,
                                                                 std::span<const WebhookRule> rules, Timestamp now);

/// The whole judgement: a pure function. The body's bytes become the payload as they are.
std::variant<WebhookDelivery, WebhookAnswer> JudgeWebhook(const WebhookHead& head, std::string body,
                                                          const WebhookRule& rule, Timestamp now);

/// A text or number of a JSON text by its path of names, for example `data.object.id`; empty when it is not there or
/// is something else. Of a doubled name the last counts, as for most readers.
std::optional<std::string> FindJsonText(std::string_view json, std::string_view path);

}  // namespace sealane
