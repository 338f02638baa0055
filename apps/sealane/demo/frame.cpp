#include "demo/frame.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "daemon/daemon.hpp"

namespace sealane::demo {
namespace {

constexpr std::size_t kBarWidth = 40;

std::string Number(std::int64_t count) {
  return cli::Grouped(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0)));
}

std::string Seconds(std::chrono::milliseconds time) {
  return fmt::format("{:.3f}", static_cast<double>(time.count()) / 1000);
}

std::string Repeated(std::string_view mark, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += mark;
  return text;
}

Line BarLine(std::string_view name, std::int64_t count, std::int64_t whole, std::string_view note) {
  const double share = whole <= 0 ? 0 : static_cast<double>(count) / static_cast<double>(whole);
  const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(kBarWidth));
  return {{fmt::format("  {:<10}", name), Ink::kPlain},
          {fmt::format("{:>8}  ", Number(count)), Ink::kBold},
          {Repeated("━", filled), Ink::kAccent},
          {Repeated("─", kBarWidth - filled), Ink::kFaint},
          {fmt::format("  {}", note), Ink::kFaint}};
}

/// The history of a number in so many columns, each with the largest value of its time.
std::string Sparkline(const std::vector<std::int64_t>& history, std::size_t columns) {
  static constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (history.empty()) return "";
  const std::size_t per_column = (history.size() + columns - 1) / columns;
  const std::int64_t top = std::max<std::int64_t>(*std::max_element(history.begin(), history.end()), 1);
  std::string text;
  for (std::size_t at = 0; at < history.size(); at += per_column) {
    const auto begin = history.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = history.begin() + static_cast<std::ptrdiff_t>(std::min(at + per_column, history.size()));
    const std::int64_t value = *std::max_element(begin, end);
    text += kBlocks[static_cast<std::size_t>(value * static_cast<std::int64_t>(kBlocks.size() - 1) / top)];
  }
  return text;
}

Ink InkOf(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return Ink::kPlain;
    case Tone::kBroken:
      return Ink::kWarning;
    case Tone::kHealed:
      return Ink::kGood;
  }
  return Ink::kPlain;
}

}  // namespace

std::vector<Line> LiveFrame(const BoardView& view, const Heading& heading, std::size_t lines) {
  const Counts& counts = view.counts;
  std::vector<Line> frame;
  frame.push_back(
      {{"  sealane demo", Ink::kBold},
       {fmt::format("   {}, {} events/s, seed {}", heading.place, heading.pace.rate, heading.pace.seed), Ink::kFaint},
       {fmt::format("   {:.1f} s", static_cast<double>(view.now.count()) / 1000), Ink::kPlain},
       {fmt::format("   {}", view.phase), Ink::kFaint}});
  frame.emplace_back();
  frame.push_back(BarLine("committed", counts.committed, counts.committed, "together with their orders"));
  frame.push_back(BarLine("delivered", counts.delivered, counts.committed,
                          fmt::format("{} messages: all of it twice", Number(counts.deliveries))));
  frame.push_back(
      BarLine("applied", counts.applied, counts.committed, fmt::format("{} set aside", Number(counts.parked))));
  frame.push_back({{"  pending   ", Ink::kPlain},
                   {fmt::format("{:>8}  ", Number(counts.pending())), Ink::kBold},
                   {Sparkline(view.pending, kBarWidth), Ink::kWarning}});
  frame.emplace_back();
  if (view.broken.empty()) {
    frame.push_back({{"  broken now: nothing", Ink::kFaint}});
  } else {
    frame.push_back({{fmt::format("  broken now: {}", fmt::join(view.broken, "; ")), Ink::kWarning}});
  }
  frame.emplace_back();
  const std::size_t first = view.lines.size() - std::min(view.lines.size(), lines);
  for (std::size_t i = first; i < view.lines.size(); ++i) frame.push_back(LineOf(view.lines[i]));
  return frame;
}

Line LineOf(const BoardLine& line) {
  return {{fmt::format("{:>8}  ", Seconds(line.at)), Ink::kFaint}, {line.text, InkOf(line.tone)}};
}

Line CountsLine(const BoardView& view) {
  const Counts& counts = view.counts;
  return {
      {fmt::format("{:>8}  ", Seconds(view.now)), Ink::kFaint},
      {fmt::format("committed {}  delivered {}  applied {}  set aside {}  pending {}", Number(counts.committed),
                   Number(counts.delivered), Number(counts.applied), Number(counts.parked), Number(counts.pending())),
       Ink::kPlain}};
}

std::vector<Line> VerdictLines(const Verdict& verdict) {
  std::vector<Line> lines;
  const std::size_t column = verdict.holds() ? 7 : 15;
  lines.push_back({{"  broken on purpose, and what was counted in store and topics afterwards", Ink::kBold}});
  for (const Finding& finding : verdict.findings) {
    lines.push_back({{fmt::format("  {:<{}}", finding.holds ? "holds" : "DOES NOT HOLD", column),
                      finding.holds ? Ink::kGood : Ink::kBad},
                     {finding.broken, Ink::kPlain}});
    lines.push_back({{std::string(2 + column, ' '), Ink::kPlain}, {finding.counted, Ink::kFaint}});
    for (const std::string& problem : finding.problems) {
      lines.push_back({{std::string(2 + column, ' '), Ink::kPlain}, {problem, Ink::kBad}});
    }
  }
  lines.emplace_back();
  const auto held = std::count_if(verdict.findings.begin(), verdict.findings.end(),
                                  [](const Finding& finding) { return finding.holds; });
  if (verdict.holds()) {
    lines.push_back({{"  all of it holds", Ink::kGood}});
  } else {
    lines.push_back({{fmt::format("  DOES NOT HOLD: {} of {}",
                                  verdict.findings.size() - static_cast<std::size_t>(held), verdict.findings.size()),
                      Ink::kBad}});
  }
  return lines;
}

}  // namespace sealane::demo
