#pragma once

#include <string>
#include <vector>

#include "demo/board.hpp"
#include "demo/plan.hpp"
#include "demo/styled_text.hpp"
#include "demo/verdict.hpp"

namespace sealane::demo {

/// What stands above everything.
struct Heading {
  std::string place;  ///< `SQLite and a journal`
  Pace pace;
};

/// The live view: how far events are, what is broken, and the last `lines` things that happened.
std::vector<Line> LiveFrame(const BoardView& view, const Heading& heading, std::size_t lines);
/// One thing that happened, with its time.
Line LineOf(const BoardLine& line);
/// How far events are, in one line.
Line CountsLine(const BoardView& view);
/// What was broken, what was counted, and whether it holds.
std::vector<Line> VerdictLines(const Verdict& verdict);

}  // namespace sealane::demo
