// The two shapes of a log line. Whatever comes in, a JSON line parses and a text line is one line.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/time_text.hpp"

namespace sealane {
namespace {

constexpr std::string_view kHiddenText = "***";
constexpr std::string_view kCutText = " (cut)\n";
constexpr std::string_view kCutJson = R"(,"cut":true)";
constexpr std::size_t kJsonRoom = Logger::kLineMax - kCutJson.size() - 2;  // brace and newline

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

// Numbers JSON has no form for stand as text.
std::string FormatNumber(double number) {
  return std::isfinite(number) ? fmt::format("{}", number) : fmt::format("\"{}\"", number);
}

// A value longer than a line is cut before it is escaped, so that a huge one costs nothing.
std::string_view AtMostALine(std::string_view text) {
  return text.substr(0, Logger::kLineMax);
}

std::string TextValue(std::string_view raw) {
  const std::string_view text = AtMostALine(raw);
  std::string escaped = EscapeForTerminal(text);
  const bool plain = !escaped.empty() && escaped == text && escaped.find_first_of(" \"=\\") == std::string::npos;
  if (plain) return escaped;
  std::string quoted = "\"";
  for (const char c : escaped) {
    if (c == '"') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string TextValue(const LogField& field) {
  return std::visit(Overloaded{
                        [](std::string_view text) { return TextValue(text); },
                        [](double number) { return FormatNumber(number); },
                        [](LogField::Hidden) { return std::string(kHiddenText); },
                        [](const auto& plain) { return fmt::format("{}", plain); },
                    },
                    field.value());
}

std::size_t CodePointStart(std::string_view text, std::size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U) --at;
  return at;
}

// Returns false when the value had to be cut.
bool AppendJsonValue(std::string& out, const LogField& field, std::size_t budget) {
  const auto append = [&](std::string_view token) {
    out += token;
    return true;
  };
  return std::visit(Overloaded{
                        [&](std::string_view text) { return AppendJsonString(out, AtMostALine(text), budget); },
                        [&](double number) { return append(FormatNumber(number)); },
                        [&](LogField::Hidden) { return AppendJsonString(out, kHiddenText, budget); },
                        [&](const auto& plain) { return append(fmt::format("{}", plain)); },
                    },
                    field.value());
}

// The line's own names are not for fields: a doubled name means different things to different readers.
std::string JsonName(std::string_view name) {
  constexpr std::array<std::string_view, 4> kTaken = {"ts", "level", "message", "cut"};
  const bool taken = std::find(kTaken.begin(), kTaken.end(), name) != kTaken.end();
  return JsonString(taken ? fmt::format("{}_", name) : std::string(name.substr(0, 64)));
}

}  // namespace

std::string FormatTextLine(Timestamp time, LogLevel level, std::string_view message,
                           std::initializer_list<LogField> fields) {
  std::string line =
      fmt::format("{} {:<7} {}", ToRfc3339(time), ToString(level), EscapeForTerminal(AtMostALine(message)));
  for (const LogField& field : fields) {
    if (line.size() > Logger::kLineMax) break;
    line += fmt::format(" {}={}", EscapeForTerminal(field.name()), TextValue(field));
  }
  if (line.size() + 1 > Logger::kLineMax) {
    line.resize(CodePointStart(line, Logger::kLineMax - kCutText.size()));
    return line += kCutText;
  }
  return line += '\n';
}

std::string FormatJsonLine(Timestamp time, LogLevel level, std::string_view message,
                           std::initializer_list<LogField> fields) {
  // Tokens other than strings are this long at most, so a field starts only where one still fits.
  constexpr std::size_t kTokenMax = 32;
  std::string line = fmt::format(R"({{"ts":"{}","level":"{}","message":)", ToRfc3339(time), ToString(level));
  bool whole = AppendJsonString(line, AtMostALine(message), kJsonRoom - line.size());
  for (const LogField& field : fields) {
    const std::string name = JsonName(field.name());
    if (line.size() + name.size() + 2 + kTokenMax > kJsonRoom) {
      whole = false;
      break;
    }
    line += fmt::format(",{}:", name);
    whole = AppendJsonValue(line, field, kJsonRoom - line.size()) && whole;
  }
  if (!whole) line += kCutJson;
  return line += "}\n";
}

}  // namespace sealane
