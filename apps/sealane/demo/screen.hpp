#pragma once

#include <iosfwd>
#include <memory>
#include <string>

#include "demo/board.hpp"
#include "demo/frame.hpp"

namespace sealane::demo {

/// Shows the board while the demo runs. One thread.
class Screen {
 public:
  virtual ~Screen() = default;
  /// Called several times a second.
  virtual void Show(const BoardView& view) = 0;
  /// The last look; the terminal is as it was before, with what is to stay on it.
  virtual void End(const BoardView& view) = 0;
};

/// A compact view that is drawn over and over in the same place.
std::unique_ptr<Screen> MakeLiveScreen(std::ostream& out, Heading heading, bool color);
/// Lines with times, and once a second how far everything is.
std::unique_ptr<Screen> MakePlainScreen(std::ostream& out, Heading heading);
/// Nothing.
std::unique_ptr<Screen> MakeSilentScreen();

/// Undoes what a live screen did to the terminal. Safe in a moment when nothing else is.
void RestoreTerminal();

}  // namespace sealane::demo
