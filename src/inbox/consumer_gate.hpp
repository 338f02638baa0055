#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "sealane/clock.hpp"

#include "inbox/consumer_options.hpp"

namespace sealane {

/// What the circuit breaker has seen lately: for each order key whether its last event was applied or failed
/// permanently. Bounded in time and in keys, newest kept.
class FailureWindow {
 public:
  FailureWindow(std::chrono::milliseconds window, std::size_t keys_max) : window_(window), keys_max_(keys_max) {}

  void Note(std::string_view unit, bool failed, BootTime now);
  void Clear();
  /// Of the last call of Note().
  std::size_t failed() const { return failed_; }
  std::size_t keys() const { return keys_.size(); }

 private:
  struct Seen {
    BootTime at{0};
    bool failed = false;
  };
  void Forget(BootTime now);

  const std::chrono::milliseconds window_;
  const std::size_t keys_max_;
  std::unordered_map<std::size_t, Seen> keys_;
  std::deque<std::pair<BootTime, std::size_t>> order_;  // a key that was seen again is there more than once
  std::size_t failed_ = 0;
};

/// Decides whether the members of a consumer may apply events: not while an operator has paused it, nor while its
/// circuit breaker is open but for one probe at a time. And whether more may be parked.
///
/// The breaker opens when many order keys fail permanently: that is a bad handler, not bad events, and each event
/// that it declares dead would need a person. While the breaker is undecided, failed events are kept for a retry
/// instead of dead. Open or not is also in the store, for the other members, for the next process and for operators.
///
/// Thread-safe.
class ConsumerGate {
 public:
  ConsumerGate(const ConsumerOptions& options, Clock& clock);

  enum class Permit : std::uint8_t {
    kWork,
    kProbe,  ///< one event; EndProbe() has to follow
    kHold,
  };
  Permit Ask();
  enum class ProbeResult : std::uint8_t { kWorked, kFailed, kProvedNothing };
  void EndProbe(ProbeResult result);
  /// Neither paused nor open.
  bool may_work() const;

  // ---- what became of events ----

  void NoteApplied(std::string_view unit);
  /// The event failed permanently, in this attempt. True: it is to be tried again after deferral(), because the
  /// breaker is open or may be about to open.
  bool NoteFailed(std::string_view unit, std::int32_t attempts, std::string_view code);
  std::chrono::milliseconds deferral() const;

  // ---- parked events ----

  /// Whether `more` may be parked. When not, the consumer holds until there is room.
  bool HasRoom(std::int64_t more);
  void NoteParked(std::int64_t more);
  void NoteCounted(std::int64_t parked);
  /// Something may have become due, or has to be written down: the next look need not wait for its time.
  void Nudge();
  bool TakeNudge();

  // ---- the store ----

  /// What the store has to be told; empty: it knows.
  std::optional<std::optional<ConsumerHold>> Untold() const;
  void Told(const std::optional<ConsumerHold>& hold);
  /// What the store says. Nothing is permitted before the first time.
  void Heard(const InboxLook& look);
  bool has_heard() const;

  /// Why nothing, or not everything, is applied; empty: all is well. kMisconfigured, with the command that helps.
  std::optional<Error> problem() const;
  /// The same, once it is certain that waiting a moment longer does not help: for a consumer that is to end.
  std::optional<Error> lasting_problem() const;

 private:
  void Open(const std::string& message);
  void Close(std::string_view why);
  std::optional<ConsumerHold> Wanted() const;
  std::optional<Error> Problem() const;

  const ConsumerOptions& options_;
  Clock& clock_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  FailureWindow window_;
  bool open_ = false;
  std::string open_message_;
  bool probing_ = false;
  BootTime probe_at_{0};
  std::chrono::milliseconds probe_wait_;
  std::uint64_t probes_failed_ = 0;     // since it opened, or this process began
  std::optional<BootTime> wary_until_;  // it closed lately: nothing dies at once
  bool heard_ = false;
  std::optional<std::string> pause_;
  std::int64_t parked_ = 0;  // as counted last, and what was parked since
  std::optional<BootTime> full_since_;
  bool untold_ = false;
  bool nudged_ = false;
};

}  // namespace sealane
