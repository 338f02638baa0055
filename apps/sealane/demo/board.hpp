#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/error.hpp"

namespace sealane::demo {

/// What a line is about, which is how it is coloured.
enum class Tone : std::uint8_t { kPlain, kBroken, kHealed };

struct BoardLine {
  std::chrono::milliseconds at{};  ///< since the start
  Tone tone = Tone::kPlain;
  std::string text;
};

/// How far the events are, as counted in the store and the topics.
struct Counts {
  std::int64_t committed = 0;   ///< events in the outbox
  std::int64_t deliveries = 0;  ///< messages in the topics
  std::int64_t delivered = 0;   ///< events among these
  std::int64_t applied = 0;     ///< effects in the consumers' tables
  std::int64_t parked = 0;      ///< set aside by consumers

  std::int64_t pending() const { return committed - applied - parked; }
  friend bool operator==(const Counts&, const Counts&) = default;
};

/// Everything there is to see, copied out at one moment.
struct BoardView {
  std::chrono::milliseconds now{};
  std::vector<BoardLine> lines;
  std::vector<std::string> broken;  ///< what is broken right now
  Counts counts;
  std::vector<std::int64_t> pending;  ///< five times a second
  std::string phase;                  ///< what the demo is doing
};

/// What the parts of the demo want to be seen. Thread-safe.
class Board {
 public:
  explicit Board(Clock& clock) : clock_(clock), begin_(clock.SinceBoot()) {}

  void Say(std::string text, Tone tone = Tone::kPlain);
  /// From now on something is broken, until Heal() says otherwise.
  void Break(const std::string& what, std::string line);
  void Heal(const std::string& what, std::string line);
  void SetPhase(std::string phase);
  void Show(const Counts& counts);

  BoardView View() const;

 private:
  std::chrono::milliseconds SinceBegin() const;
  void SayLocked(std::string text, Tone tone);

  Clock& clock_;
  const BootTime begin_;
  mutable std::mutex mutex_;
  BoardView view_;  // guarded by mutex_, as is the next
  std::chrono::milliseconds next_sample_{0};
};

/// The first failure that ends the demo, from whichever thread. Thread-safe.
class FirstFailure {
 public:
  void Note(Error error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  std::optional<Error> error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Error> error_;  // guarded by mutex_
};

}  // namespace sealane::demo
