#include "demo/styled_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane::demo {
namespace {

bool ContinuesCharacter(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

std::string_view AnsiOf(Ink ink) {
  switch (ink) {
    case Ink::kPlain:
      return "";
    case Ink::kBold:
      return "\x1b[1m";
    case Ink::kFaint:
      return "\x1b[2m";
    case Ink::kGood:
      return "\x1b[32m";
    case Ink::kBad:
      return "\x1b[1;31m";
    case Ink::kWarning:
      return "\x1b[33m";
    case Ink::kAccent:
      return "\x1b[36m";
  }
  return "";
}

std::string_view SvgStyleOf(Ink ink) {
  switch (ink) {
    case Ink::kPlain:
      return "fill:#d7dae0";
    case Ink::kBold:
      return "fill:#ffffff;font-weight:bold";
    case Ink::kFaint:
      return "fill:#7d8490";
    case Ink::kGood:
      return "fill:#7fc983";
    case Ink::kBad:
      return "fill:#f0716b;font-weight:bold";
    case Ink::kWarning:
      return "fill:#e0b25c";
    case Ink::kAccent:
      return "fill:#6cb6d9";
  }
  return "";
}

std::string EscapeForXml(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

}  // namespace

std::size_t WidthOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !ContinuesCharacter(c); }));
}

std::size_t WidthOf(const Line& line) {
  std::size_t width = 0;
  for (const Piece& piece : line) width += WidthOf(piece.text);
  return width;
}

Line Cut(const Line& line, std::size_t width) {
  Line cut;
  for (const Piece& piece : line) {
    std::size_t end = 0;
    for (; end < piece.text.size(); ++end) {
      if (ContinuesCharacter(piece.text[end])) continue;
      if (width == 0) break;
      --width;
    }
    if (end > 0) cut.push_back({piece.text.substr(0, end), piece.ink});
  }
  return cut;
}

std::string ToAnsi(const Line& line, bool color) {
  std::string text;
  for (const Piece& piece : line) {
    const std::string_view paint = color ? AnsiOf(piece.ink) : "";
    text += fmt::format("{}{}{}", paint, EscapeForTerminal(piece.text), paint.empty() ? "" : "\x1b[0m");
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string ToSvg(std::span<const Line> lines, std::string_view title) {
  constexpr double kColumn = 8.4;
  constexpr double kRow = 19;
  constexpr double kMargin = 22;
  constexpr double kBar = 34;
  std::size_t columns = 80;
  for (const Line& line : lines) columns = std::max(columns, WidthOf(line));
  const double width = 2 * kMargin + kColumn * static_cast<double>(columns);
  const double height = kBar + 2 * kMargin + kRow * static_cast<double>(lines.size());
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" role="img">
<title>{2}</title>
<rect width="{0:.0f}" height="{1:.0f}" rx="10" fill="#1b1e24"/>
<rect width="{0:.0f}" height="{3:.0f}" rx="10" fill="#262a32"/>
<circle cx="20" cy="17" r="5.5" fill="#f0716b"/><circle cx="38" cy="17" r="5.5" fill="#e0b25c"/><circle cx="56" cy="17" r="5.5" fill="#7fc983"/>
<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" xml:space="preserve">
)",
      width, height, EscapeForXml(title), kBar);
  double y = kBar + kMargin + 10;
  for (const Line& line : lines) {
    std::size_t column = 0;
    for (const Piece& piece : line) {
      // Each piece has its own place and length, so that a font with other widths does not move the columns.
      const std::size_t piece_width = WidthOf(piece.text);
      if (piece.text.find_first_not_of(' ') != std::string::npos) {
        svg += fmt::format(
            R"(<text x="{:.1f}" y="{:.0f}" textLength="{:.1f}" lengthAdjust="spacingAndGlyphs" style="{}">{}</text>)"
            "\n",
            kMargin + kColumn * static_cast<double>(column), y, kColumn * static_cast<double>(piece_width),
            SvgStyleOf(piece.ink), EscapeForXml(piece.text));
      }
      column += piece_width;
    }
    y += kRow;
  }
  return svg + "</g>\n</svg>\n";
}

}  // namespace sealane::demo
