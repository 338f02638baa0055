#include "output.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "base/time_text.hpp"

namespace sealane::cli {
namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kRed = "\x1b[31m";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kPlain = "\x1b[0m";

std::string Painted(std::string_view text, std::string_view paint, bool color) {
  return color ? fmt::format("{}{}{}", paint, text, kPlain) : std::string(text);
}

// Code points, which is what a terminal shows one column for, East Asian and combining characters apart.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

bool ListsProblems(const Error& error) {
  return error.code() == "bad_configuration";
}

std::string MessageWithContext(const Error& error) {
  std::string text = error.message();
  if (ListsProblems(error)) return text;
  for (const std::string& note : error.context()) text += fmt::format(", {}", note);
  return text;
}

std::string Details(const Error& error) {
  JsonDocument details;
  details.TextIfAny("native", error.native());
  if (!error.context().empty()) {
    std::vector<std::string> notes;
    for (const std::string& note : error.context()) notes.push_back(JsonString(note));
    details.Raw(ListsProblems(error) ? "problems" : "context", JsonArray(notes));
  }
  return details.Finish();
}

std::string ErrorJson(const Error& error) {
  JsonDocument inner;
  inner.Text("code", error.code()).Text("kind", ToString(error.kind())).Text("message", MessageWithContext(error));
  const auto text_or_null = [&](std::string_view name, const std::string& value) {
    if (value.empty()) {
      inner.Null(name);
    } else {
      inner.Text(name, value);
    }
  };
  text_or_null("hint", error.hint());
  text_or_null("field", error.field());
  inner.Raw("details", Details(error));
  return JsonDocument().Raw("error", inner.Finish()).Finish() + '\n';
}

}  // namespace

std::optional<OutputFormat> ParseOutputFormat(std::string_view text) {
  if (text == "table") return OutputFormat::kTable;
  if (text == "json") return OutputFormat::kJson;
  if (text == "jsonl") return OutputFormat::kJsonl;
  return std::nullopt;
}

JsonDocument& JsonDocument::Text(std::string_view name, std::string_view value) {
  object_.Text(name, value);
  return *this;
}
JsonDocument& JsonDocument::TextIfAny(std::string_view name, std::string_view value) {
  object_.TextIfAny(name, value);
  return *this;
}
JsonDocument& JsonDocument::Integer(std::string_view name, std::int64_t value) {
  object_.Integer(name, value);
  return *this;
}
JsonDocument& JsonDocument::Raw(std::string_view name, std::string_view json) {
  object_.Raw(name, json);
  return *this;
}
JsonDocument& JsonDocument::Truth(std::string_view name, bool value) {
  return Raw(name, value ? "true" : "false");
}
JsonDocument& JsonDocument::Time(std::string_view name, Timestamp value) {
  return Text(name, ToRfc3339(value));
}

std::string JsonArray(const std::vector<std::string>& items) {
  return fmt::format("[{}]", fmt::join(items, ","));
}

std::string Table::Render(bool color) const {
  std::vector<std::vector<std::string>> safe;
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    safe.emplace_back();
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      safe.back().push_back(EscapeForTerminal(row[i]));
      widths[i] = std::max(widths[i], Width(safe.back()[i]));
    }
  }
  std::string text;
  for (std::size_t r = 0; r < safe.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < safe[r].size(); ++i) {
      line += safe[r][i];
      line.append(widths[i] - Width(safe[r][i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += r == 0 ? Painted(line, kBold, color) : line;
    text += '\n';
  }
  return text;
}

std::string RenderError(const Error& error, OutputFormat format, bool color) {
  if (format != OutputFormat::kTable) return ErrorJson(error);
  std::string text =
      fmt::format("{} {}", Painted("sealane:", kRed, color), EscapeForTerminal(MessageWithContext(error)));
  if (!error.native().empty()) text += fmt::format(" [{}]", EscapeForTerminal(error.native()));
  text += '\n';
  if (ListsProblems(error)) {
    for (const std::string& problem : error.context()) text += fmt::format("  {}\n", EscapeForTerminal(problem));
  }
  if (!error.hint().empty()) text += fmt::format("  hint: {}\n", EscapeForTerminal(error.hint()));
  return text;
}

std::string RenderWarning(std::string_view message, OutputFormat format, bool color) {
  if (format != OutputFormat::kTable) {
    return JsonDocument().Raw("warning", JsonDocument().Text("message", message).Finish()).Finish() + '\n';
  }
  return fmt::format("{} {}\n", Painted("sealane: warning:", kYellow, color), EscapeForTerminal(message));
}

}  // namespace sealane::cli
