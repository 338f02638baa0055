#include "http/http_headers.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace sealane::http {
namespace {

// Names that change what the request means to servers and proxies on its way.
constexpr std::array<std::string_view, 19> kNamesOfHttp = {"authorization",    "connection", "content-encoding",
                                                           "content-length",   "cookie",     "expect",
                                                           "forwarded",        "host",       "idempotency-key",
                                                           "keep-alive",       "origin",     "proxy-authorization",
                                                           "proxy-connection", "range",      "te",
                                                           "trailer",          "upgrade",    "via",
                                                           "transfer-encoding"};

constexpr char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return Lower(x) == Lower(y); });
}

// Without the percent sign, which begins an encoded one.
constexpr bool IsTokenChar(char c) {
  const bool alphanumeric = (c >= '0' && c <= '9') || (Lower(c) >= 'a' && Lower(c) <= 'z');
  return alphanumeric || std::string_view("!#$&'*+-.^_`|~").find(c) != std::string_view::npos;
}

void AppendPercent(std::string& out, char c) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  out.push_back('%');
  out.push_back(kDigits[byte >> 4U]);
  out.push_back(kDigits[byte & 15U]);
}

std::string EncodedName(std::string_view name, std::string_view also_kept = "") {
  std::string encoded;
  for (const char c : name) {
    if (IsTokenChar(c) || also_kept.find(c) != std::string_view::npos) {
      encoded.push_back(c);
    } else {
      AppendPercent(encoded, c);
    }
  }
  return encoded;
}

std::string EncodedValue(std::string_view value) {
  std::string encoded;
  for (const char c : value) {
    if (c > 0x20 && c < 0x7f && c != '"' && c != '%') {
      encoded.push_back(c);
    } else {
      AppendPercent(encoded, c);
    }
  }
  return encoded;
}

// Printable ASCII, and no space at its ends, which servers cut off.
bool IsCarried(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c < 0x7f; }) &&
         (value.empty() || (value.front() != ' ' && value.back() != ' '));
}

// A header without value is written with a semicolon: with a colon libcurl would leave it out.
std::string Line(std::string_view name, std::string_view value) {
  std::string line(name);
  if (value.empty()) return line + ";";
  line += ": ";
  line += value;
  return line;
}

// As receivers compare names: many servers hand headers on as variables, where `X_Api_Key` is `X-Api-Key`.
bool IsSameField(std::string_view a, std::string_view b) {
  const auto folded = [](char c) { return c == '_' ? '-' : Lower(c); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return folded(x) == folded(y); });
}

bool HasField(const Headers& headers, std::string_view name) {
  return std::any_of(headers.begin(), headers.end(),
                     [&](const Header& header) { return IsSameField(header.name, name); });
}

// Whether an event's header would be taken for one that the relay wrote into the message: `tenant_id` for
// `tenant-id`. A header with a reserved name is the relay's, because an event cannot have one.
bool ImitatesReserved(const Headers& of_message, std::string_view name) {
  return !IsReservedHeader(name) && std::any_of(of_message.begin(), of_message.end(), [&](const Header& header) {
    return IsReservedHeader(header.name) && IsSameField(header.name, name);
  });
}

bool IsNameOfHttp(std::string_view given) {
  return std::any_of(kNamesOfHttp.begin(), kNamesOfHttp.end(),
                     [&](std::string_view name) { return IsSameField(name, given); });
}

// A line that we write ourselves, unless the configuration has one of that name.
void AddUnlessConfigured(std::vector<std::string>& lines, const Headers& configured, std::string_view name,
                         std::string_view value) {
  if (!HasField(configured, name)) lines.push_back(Line(name, value));
}

// The name of a header of an event or a task: one that is taken gets `own-` in front.
std::string OwnName(const Headers& configured, std::string name, bool taken) {
  if (taken || name.empty() || HasField(configured, name)) name.insert(0, "own-");
  return name;
}

// When the name with `own-` is configured as well, the header is left out: nothing that an event says stands beside
// what was configured.
void AddOwn(std::vector<std::string>& lines, const Headers& configured, std::string name, std::string_view value,
            bool taken) {
  AddUnlessConfigured(lines, configured, OwnName(configured, std::move(name), taken), value);
}

// Nothing replaces the key by which a receiver knows a repetition.
void AddConfigured(std::vector<std::string>& lines, const Headers& configured) {
  for (const Header& header : configured) {
    if (!IsSameField(header.name, "idempotency-key")) lines.push_back(Line(header.name, header.value));
  }
}

// Of two with one name for a receiver, the second value stands behind the first, as a server would read two lines.
void AddJoined(Headers& headers, std::string name, std::string value) {
  const auto there = std::find_if(headers.begin(), headers.end(),
                                  [&](const Header& header) { return IsSameField(header.name, name); });
  if (there == headers.end()) {
    headers.push_back({std::move(name), std::move(value)});
  } else {
    there->value += ", " + value;
  }
}

// What the request for an event says itself, whatever the message's headers are.
constexpr std::array<std::string_view, 3> kNamesOfPost = {"content-type", "sealane-topic", "sealane-key"};

// What an attempt says itself, whatever the task's headers are.
constexpr std::array<std::string_view, 3> kNamesOfAttempt = {"content-type", "x-sealane-task-id",
                                                             "x-sealane-attempt"};

}  // namespace

std::string CarriedValue(std::string_view value) {
  return IsCarried(value) ? std::string(value) : EncodedValue(value);
}

std::vector<std::string> TaskHeaderLines(const ClaimedTask& claimed, const Headers& of_target) {
  const Task& task = claimed.task;
  std::vector<std::string> lines;
  lines.reserve(task.headers.size() + of_target.size() + 6);
  const bool key_as_it_is = IsCarried(task.idempotency_key) && task.idempotency_key.find('%') == std::string::npos;
  lines.push_back(Line("Idempotency-Key", key_as_it_is ? task.idempotency_key : EncodedValue(task.idempotency_key)));
  AddUnlessConfigured(lines, of_target, "X-Sealane-Task-Id", claimed.id.ToString());
  AddUnlessConfigured(lines, of_target, "X-Sealane-Attempt", std::to_string(claimed.attempt));
  AddUnlessConfigured(lines, of_target, "Content-Type", CarriedValue(task.content_type));
  lines.emplace_back("Expect:");
  if (!task.traceparent.empty()) AddUnlessConfigured(lines, of_target, "traceparent", CarriedValue(task.traceparent));
  AddConfigured(lines, of_target);
  for (const Header& header : task.headers) {
    const auto is = [&](std::string_view name) { return IsSameField(name, header.name); };
    const bool taken = IsNameOfHttp(header.name) || std::any_of(kNamesOfAttempt.begin(), kNamesOfAttempt.end(), is) ||
                       (!task.traceparent.empty() && is("traceparent"));
    // A percent sign stays: the name is one of HTTP already, and may have been encoded to be one.
    AddOwn(lines, of_target, EncodedName(header.name, "%"), CarriedValue(header.value), taken);
  }
  return lines;
}

Headers TaskHeadersOf(const WireMessage& message, std::string_view topic) {
  Headers headers = {{"Sealane-Topic", EncodedValue(topic)}, {"Sealane-Key", EncodedValue(message.key)}};
  const auto is_ours = [](const Header& header) { return header.name.starts_with("ce_"); };
  for (const Header& header : message.headers) {
    if (!is_ours(header)) continue;
    AddJoined(headers, "ce-" + EncodedName(std::string_view(header.name).substr(3)), EncodedValue(header.value));
  }
  const Headers ours = headers;
  for (const Header& header : message.headers) {
    if (is_ours(header) || EqualsIgnoringCase(header.name, "content-type") ||
        EqualsIgnoringCase(header.name, "traceparent")) {
      continue;
    }
    std::string name = EncodedName(header.name);
    if (name.empty() || HasField(ours, name) || ImitatesReserved(message.headers, header.name))
      name.insert(0, "own-");
    AddJoined(headers, std::move(name), CarriedValue(header.value));
  }
  return headers;
}

std::vector<std::string> HeaderLines(const HeldMessage& message, const HttpOptions& options) {
  std::vector<std::string> lines;
  lines.reserve(message.headers.size() + options.headers.size() + 6);
  lines.push_back(Line("Idempotency-Key", message.event_id.ToString()));
  AddUnlessConfigured(lines, options.headers, "Sealane-Topic", EncodedValue(message.topic));
  AddUnlessConfigured(lines, options.headers, "Sealane-Key", EncodedValue(message.key));
  lines.emplace_back("Expect:");  // no extra round trip before the body
  bool has_content_type = false;
  Headers own;
  for (const Header& header : message.headers) {
    if (EqualsIgnoringCase(header.name, "content-type")) {
      has_content_type = true;
      AddUnlessConfigured(lines, options.headers, header.name, CarriedValue(header.value));
    } else if (header.name.starts_with("ce_")) {
      AddUnlessConfigured(lines, options.headers, "ce-" + EncodedName(std::string_view(header.name).substr(3)),
                          EncodedValue(header.value));
    } else {
      const auto is = [&](std::string_view name) { return IsSameField(name, header.name); };
      const bool taken = IsNameOfHttp(header.name) || std::any_of(kNamesOfPost.begin(), kNamesOfPost.end(), is) ||
                         ImitatesReserved(message.headers, header.name);
      AddJoined(own, OwnName(options.headers, EncodedName(header.name), taken), CarriedValue(header.value));
    }
  }
  for (const Header& header : own) AddUnlessConfigured(lines, options.headers, header.name, header.value);
  if (!has_content_type) AddUnlessConfigured(lines, options.headers, "Content-Type", "application/octet-stream");
  AddConfigured(lines, options.headers);
  return lines;
}

}  // namespace sealane::http
