#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sealane::demo {

enum class Ink : std::uint8_t { kPlain, kBold, kFaint, kGood, kBad, kWarning, kAccent };

struct Piece {
  std::string text;
  Ink ink = Ink::kPlain;
};

/// One line of a screen, whatever shows it.
using Line = std::vector<Piece>;

/// Columns it takes on a terminal.
std::size_t WidthOf(std::string_view text);
std::size_t WidthOf(const Line& line);
/// The beginning of the line that fits.
Line Cut(const Line& line, std::size_t width);

/// For a terminal, without a line end. Text from outside cannot drive the terminal.
std::string ToAnsi(const Line& line, bool color);
/// A picture of a terminal with these lines in it.
std::string ToSvg(std::span<const Line> lines, std::string_view title);

}  // namespace sealane::demo
