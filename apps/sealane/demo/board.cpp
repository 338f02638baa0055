#include "demo/board.hpp"

#include <algorithm>

namespace sealane::demo {
namespace {

constexpr std::chrono::milliseconds kSampleEvery{200};

}  // namespace

std::chrono::milliseconds Board::SinceBegin() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.SinceBoot() - begin_);
}

void Board::SayLocked(std::string text, Tone tone) {
  view_.lines.push_back({SinceBegin(), tone, std::move(text)});
}

void Board::Say(std::string text, Tone tone) {
  const std::lock_guard lock(mutex_);
  SayLocked(std::move(text), tone);
}

void Board::Break(const std::string& what, std::string line) {
  const std::lock_guard lock(mutex_);
  view_.broken.push_back(what);
  SayLocked(std::move(line), Tone::kBroken);
}

void Board::Heal(const std::string& what, std::string line) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(view_.broken.begin(), view_.broken.end(), what);
  if (found != view_.broken.end()) view_.broken.erase(found);
  SayLocked(std::move(line), Tone::kHealed);
}

void Board::SetPhase(std::string phase) {
  const std::lock_guard lock(mutex_);
  view_.phase = std::move(phase);
}

void Board::Show(const Counts& counts) {
  const std::lock_guard lock(mutex_);
  view_.counts = counts;
  if (const auto now = SinceBegin(); now >= next_sample_) {
    view_.pending.push_back(std::max<std::int64_t>(counts.pending(), 0));
    next_sample_ = now + kSampleEvery;
  }
}

BoardView Board::View() const {
  const std::lock_guard lock(mutex_);
  BoardView view = view_;
  view.now = SinceBegin();
  return view;
}

}  // namespace sealane::demo
