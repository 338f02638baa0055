#include "sealane/clock.hpp"

#include <ctime>

#include "sealane/assert.hpp"

namespace sealane {

Timestamp SystemClock::Now() const {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

BootTime SystemClock::SinceBoot() const {
  timespec now{};
  const int failed = clock_gettime(CLOCK_BOOTTIME, &now);
  SEALANE_ASSERT(failed == 0, "Linux has a boot-time clock");
  return std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
}

bool SystemClock::SleepFor(std::chrono::nanoseconds duration, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, duration, [] { return false; });
  return !stop.stop_requested();
}

SystemClock& SystemClock::Instance() {
  static SystemClock clock;
  return clock;
}

Timestamp ManualClock::Now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

BootTime ManualClock::SinceBoot() const {
  const std::lock_guard lock(mutex_);
  return since_boot_;
}

bool ManualClock::SleepFor(std::chrono::nanoseconds duration, std::stop_token stop) {
  std::unique_lock lock(mutex_);
  const BootTime deadline = since_boot_ + duration;
  moved_.wait(lock, stop, [&] { return since_boot_ >= deadline; });
  return !stop.stop_requested();
}

void ManualClock::Advance(std::chrono::nanoseconds by) {
  {
    const std::lock_guard lock(mutex_);
    since_boot_ += by;
    now_ += std::chrono::duration_cast<std::chrono::microseconds>(by);
  }
  moved_.notify_all();
}

void ManualClock::StepCalendar(std::chrono::microseconds by) {
  const std::lock_guard lock(mutex_);
  now_ += by;
}

}  // namespace sealane
