#include "base/log.hpp"

#include <cerrno>
#include <string>

#include <unistd.h>

namespace sealane {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"debug", "info", "warning", "error"};
constexpr std::array<std::string_view, 2> kFormatNames = {"text", "json"};

template <class Enum, std::size_t N>
std::optional<Enum> ParseName(const std::array<std::string_view, N>& names, std::string_view text) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// A log that cannot be written has nowhere to complain; the line is still among the recent ones.
void WriteOnce(int descriptor, std::string_view line) {
  ssize_t written = 0;
  do {
    written = ::write(descriptor, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
}

}  // namespace

std::string_view ToString(LogLevel level) {
  return kLevelNames.at(static_cast<std::size_t>(level));
}
std::optional<LogLevel> ParseLogLevel(std::string_view text) {
  return ParseName<LogLevel>(kLevelNames, text);
}
std::string_view ToString(LogFormat format) {
  return kFormatNames.at(static_cast<std::size_t>(format));
}
std::optional<LogFormat> ParseLogFormat(std::string_view text) {
  return ParseName<LogFormat>(kFormatNames, text);
}

Logger::Logger(Clock& clock, LogWriter writer)
    : clock_(clock),
      writer_(writer ? std::move(writer) : [](std::string_view line) { WriteOnce(STDERR_FILENO, line); }) {}

void Logger::Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!Enabled(level)) return;
  const bool json = format_.load(std::memory_order_relaxed) == LogFormat::kJson;
  const std::string line = json ? FormatJsonLine(clock_.Now(), level, message, fields)
                                : FormatTextLine(clock_.Now(), level, message, fields);
  Remember(line);
  // Outside the lock: a reader of standard error that stalls must not stall Recent() as well.
  writer_(line);
}

void Logger::Remember(const std::string& line) {
  const std::lock_guard lock(mutex_);
  recent_[count_ % kRecentMax] = line;
  ++count_;
}

std::vector<std::string> Logger::Recent() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  for (std::size_t i = count_ < kRecentMax ? 0 : count_ - kRecentMax; i < count_; ++i) {
    lines.push_back(recent_[i % kRecentMax]);
  }
  return lines;
}

void Logger::WriteRecentTo(int descriptor) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (std::size_t i = count_ < kRecentMax ? 0 : count_ - kRecentMax; i < count_; ++i) {
    WriteOnce(descriptor, recent_[i % kRecentMax]);
  }
}

Logger& Logger::Instance() {
  static Logger* const logger = new Logger(SystemClock::Instance());
  return *logger;
}

void LogDebug(std::string_view message, std::initializer_list<LogField> fields) {
  Logger::Instance().Log(LogLevel::kDebug, message, fields);
}
void LogInfo(std::string_view message, std::initializer_list<LogField> fields) {
  Logger::Instance().Log(LogLevel::kInfo, message, fields);
}
void LogWarning(std::string_view message, std::initializer_list<LogField> fields) {
  Logger::Instance().Log(LogLevel::kWarning, message, fields);
}
void LogError(std::string_view message, std::initializer_list<LogField> fields) {
  Logger::Instance().Log(LogLevel::kError, message, fields);
}

}  // namespace sealane
