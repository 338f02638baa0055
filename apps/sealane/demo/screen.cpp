#include "demo/screen.hpp"

#include <algorithm>
#include <memory>
#include <ostream>
#include <utility>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace sealane::demo {
namespace {

constexpr std::size_t kLinesBelow = 8;
constexpr std::string_view kHideCursor = "\x1b[?25l";
constexpr std::string_view kShowCursor = "\x1b[?25h";

struct Size {
  std::size_t columns = 100;
  std::size_t rows = 24;
};

Size TerminalSize() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

class LiveScreen final : public Screen {
 public:
  LiveScreen(std::ostream& out, Heading heading, bool color)
      : out_(out), heading_(std::move(heading)), color_(color) {}

  void Show(const BoardView& view) override { Draw(view, kLinesBelow); }

  // In the end everything that happened is worth seeing.
  void End(const BoardView& view) override {
    Draw(view, view.lines.size());
    out_ << kShowCursor << '\n' << std::flush;
  }

 private:
  void Draw(const BoardView& view, std::size_t lines) {
    const Size size = TerminalSize();
    std::vector<Line> frame = LiveFrame(view, heading_, lines);
    // What was scrolled out cannot be drawn over; the last frame stays and may be longer.
    if (lines == kLinesBelow && frame.size() + 1 > size.rows) frame.resize(size.rows - 1);
    std::string text = drawn_ > 0 ? "\x1b[" + std::to_string(drawn_) + "A\r" : std::string(kHideCursor);
    for (const Line& line : frame) text += ToAnsi(Cut(line, size.columns), color_) + "\x1b[K\n";
    text += "\x1b[J";
    out_ << text << std::flush;
    drawn_ = frame.size();
  }

  std::ostream& out_;
  const Heading heading_;
  const bool color_;
  std::size_t drawn_ = 0;  // lines
};

class PlainScreen final : public Screen {
 public:
  PlainScreen(std::ostream& out, Heading heading) : out_(out), heading_(std::move(heading)) {}

  void Show(const BoardView& view) override {
    if (!std::exchange(headed_, true)) {
      out_ << fmt::format("sealane demo: {}, {} events/s for {} s, seed {}\n", heading_.place, heading_.pace.rate,
                          heading_.pace.seconds, heading_.pace.seed);
    }
    for (; shown_ < view.lines.size(); ++shown_) out_ << ToAnsi(LineOf(view.lines[shown_]), false) << '\n';
    const auto second = view.now.count() / 1'000;
    if (second > told_ && view.counts.committed > 0) {
      told_ = second;
      out_ << ToAnsi(CountsLine(view), false) << '\n';
    }
    out_ << std::flush;
  }

  void End(const BoardView& view) override {
    told_ = view.now.count() / 1'000 - 1;
    Show(view);
    out_ << '\n' << std::flush;
  }

 private:
  std::ostream& out_;
  const Heading heading_;
  bool headed_ = false;
  std::size_t shown_ = 0;
  std::int64_t told_ = 0;
};

class SilentScreen final : public Screen {
 public:
  void Show(const BoardView&) override {}
  void End(const BoardView&) override {}
};

}  // namespace

std::unique_ptr<Screen> MakeLiveScreen(std::ostream& out, Heading heading, bool color) {
  return std::make_unique<LiveScreen>(out, std::move(heading), color);
}
std::unique_ptr<Screen> MakePlainScreen(std::ostream& out, Heading heading) {
  return std::make_unique<PlainScreen>(out, std::move(heading));
}
std::unique_ptr<Screen> MakeSilentScreen() {
  return std::make_unique<SilentScreen>();
}

void RestoreTerminal() {
  if (::isatty(STDOUT_FILENO) == 0) return;  // a pipe gets no control characters
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, kShowCursor.data(), kShowCursor.size());
}

}  // namespace sealane::demo
