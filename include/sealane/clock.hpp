#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace sealane {

/// A point in calendar time, in microseconds: what PostgreSQL's timestamptz can hold.
using Timestamp = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;
/// Time since the machine started, suspended time included; never steps. For deadlines, leases and durations.
using BootTime = std::chrono::nanoseconds;

/// The only source of time in the library, so that tests and the simulator can own it.
///
/// Now() is for people and for stored data and may step; SinceBoot() is for deadlines. Implementations are safe to
/// use from several threads.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Timestamp Now() const = 0;
  virtual BootTime SinceBoot() const = 0;
  /// Waits, but not longer than until a stop is requested. Returns false when it was.
  virtual bool SleepFor(std::chrono::nanoseconds duration, std::stop_token stop) = 0;
};

/// The machine's clocks: CLOCK_REALTIME and CLOCK_BOOTTIME.
class SystemClock final : public Clock {
 public:
  Timestamp Now() const override;
  BootTime SinceBoot() const override;
  bool SleepFor(std::chrono::nanoseconds duration, std::stop_token stop) override;

  /// A clock that lives as long as the process.
  static SystemClock& Instance();
};

/// A clock that moves only when a test moves it. Sleepers wake when Advance() passes their deadline.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Timestamp start = Timestamp{std::chrono::seconds{1'700'000'000}}) : now_(start) {}
  Timestamp Now() const override;
  BootTime SinceBoot() const override;
  bool SleepFor(std::chrono::nanoseconds duration, std::stop_token stop) override;

  void Advance(std::chrono::nanoseconds by);
  /// Steps the calendar (backwards too) and leaves SinceBoot() alone, as an operator or NTP would.
  void StepCalendar(std::chrono::microseconds by);

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any moved_;
  Timestamp now_;
  BootTime since_boot_{0};
};

}  // namespace sealane
