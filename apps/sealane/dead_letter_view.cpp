#include "dead_letter_view.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/time_text.hpp"
#include "output.hpp"

namespace sealane::cli {
namespace {

std::string TimeOrDash(const std::optional<Timestamp>& time) {
  return time ? ToRfc3339(*time) : "-";
}

std::string StateWord(const DeadLetter& letter) {
  std::string word(ToString(letter.state));
  return letter.skipped ? word + " (skipped)" : word;
}

}  // namespace

std::string DeadLetterJson(const DeadLetter& letter) {
  JsonDocument json;
  json.Text("id", letter.id.ToString())
      .Text("route", letter.route)
      .Text("state", ToString(letter.state))
      .Truth("skipped", letter.skipped)
      .Integer("lane", letter.lane)
      .Integer("seq", letter.seq)
      .Text("topic", letter.topic)
      .Text("key", letter.key)
      .Text("type", letter.type)
      .TextIfAny("tenant", letter.tenant)
      .Text("unit", letter.unit)
      .Integer("attempts", letter.attempts)
      .Integer("followers", letter.followers)
      .Text("error_code", letter.error_code)
      .Text("error_message", letter.error_message);
  if (letter.next_attempt_at) json.Time("next_attempt_at", *letter.next_attempt_at);
  if (letter.first_failed_at) json.Time("first_failed_at", *letter.first_failed_at);
  if (letter.last_failed_at) json.Time("last_failed_at", *letter.last_failed_at);
  return json.Finish();
}

std::string DeadLetterTable(const std::vector<DeadLetter>& letters, bool color) {
  Table table({"SINCE", "STATE", "ROUTE", "TOPIC", "KEY", "TYPE", "ATTEMPTS", "WAITING", "ERROR", "ID"});
  for (const DeadLetter& letter : letters) {
    table.Add({TimeOrDash(letter.first_failed_at), StateWord(letter), letter.route, letter.topic, letter.key,
               letter.type, fmt::format("{}", letter.attempts), fmt::format("{}", letter.followers),
               letter.error_code.empty() ? "-" : letter.error_code, letter.id.ToString()});
  }
  return table.Render(color);
}

std::string DeadLetterDetails(const DeadLetter& letter) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<16}{}\n", name, EscapeForTerminal(value));
  };
  line("id", letter.id.ToString());
  line("route", letter.route);
  line("state", StateWord(letter));
  line("seq", fmt::format("{} (lane {})", letter.seq, letter.lane));
  line("topic", letter.topic);
  line("key", letter.key);
  line("type", letter.type);
  line("tenant", letter.tenant);
  line("attempts", fmt::format("{}", letter.attempts));
  line("error",
       letter.error_code.empty() ? std::string() : fmt::format("{}: {}", letter.error_code, letter.error_message));
  if (letter.first_failed_at) line("first failed", ToRfc3339(*letter.first_failed_at));
  if (letter.last_failed_at) line("last failed", ToRfc3339(*letter.last_failed_at));
  if (letter.next_attempt_at) line("next attempt", ToRfc3339(*letter.next_attempt_at));
  line("waiting behind", fmt::format("{} events of the same key", letter.followers));
  return text;
}

}  // namespace sealane::cli
