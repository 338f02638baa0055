#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sealane/clock.hpp"

namespace sealane {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };
/// `debug`, `info`, `warning`, `error`.
std::string_view ToString(LogLevel level);
std::optional<LogLevel> ParseLogLevel(std::string_view text);

enum class LogFormat : std::uint8_t {
  kText,  ///< one line for people, `time level message name=value ...`
  kJson,  ///< one JSON object per line
};
std::string_view ToString(LogFormat format);
std::optional<LogFormat> ParseLogFormat(std::string_view text);

/// A value that may be used but not shown. Logged, it is always `***`.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  const std::string& Reveal() const { return value_; }
  bool empty() const { return value_.empty(); }

 private:
  std::string value_;
};

/// A named value of a log line. Holds views: it lives for the length of one call.
class LogField {
 public:
  struct Hidden {};
  using Value = std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool, Hidden>;

  LogField(std::string_view name, std::string_view text) : name_(name), value_(text) {}
  LogField(std::string_view name, const char* text) : name_(name), value_(std::string_view(text)) {}
  LogField(std::string_view name, const std::string& text) : name_(name), value_(std::string_view(text)) {}
  LogField(std::string_view name, const Secret&) : name_(name), value_(Hidden{}) {}
  LogField(std::string_view name, bool truth) : name_(name), value_(truth) {}
  template <std::signed_integral T>
  LogField(std::string_view name, T number) : name_(name), value_(static_cast<std::int64_t>(number)) {}
  template <std::unsigned_integral T>
  LogField(std::string_view name, T number) : name_(name), value_(static_cast<std::uint64_t>(number)) {}
  template <std::floating_point T>
  LogField(std::string_view name, T number) : name_(name), value_(static_cast<double>(number)) {}

  std::string_view name() const { return name_; }
  const Value& value() const { return value_; }

 private:
  std::string_view name_;
  Value value_;
};

/// One finished line, newline included. Called from several threads at once.
using LogWriter = std::function<void(std::string_view line)>;

/// Writes what happened as structured lines: a message that never changes and named values beside it.
///
///     LogInfo("lane taken", {{"lane", 7}, {"owner", relay_id}});
///
/// Written here rather than taken from spdlog: its pattern formatter pastes the message into JSON without escaping,
/// so one quote or newline from outside breaks the line, and its fields are text only. Here a JSON line is valid
/// whatever bytes come in, and a text line cannot contain a line break or a terminal escape.
///
/// A line is at most kLineMax bytes, which is what a pipe takes in one piece, and leaves in one write(2), so lines of
/// several threads and processes do not mix. Longer values are cut and the line says so. The last kRecentMax lines
/// stay in memory for the report of a broken invariant. Thread-safe.
class Logger {
 public:
  static constexpr std::size_t kLineMax = 4096;
  static constexpr std::size_t kRecentMax = 64;

  /// An empty writer means standard error. The clock must outlive the logger.
  explicit Logger(Clock& clock, LogWriter writer = {});

  void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

  bool Enabled(LogLevel level) const { return level >= level_.load(std::memory_order_relaxed); }
  void SetLevel(LogLevel level) { level_.store(level, std::memory_order_relaxed); }
  void SetFormat(LogFormat format) { format_.store(format, std::memory_order_relaxed); }

  /// Oldest first.
  std::vector<std::string> Recent() const;
  /// For the moment before an abort: no allocation, and nothing when another thread holds the lines.
  void WriteRecentTo(int descriptor) const;

  /// The one of this process, which is never destroyed.
  static Logger& Instance();

 private:
  void Remember(const std::string& line);

  Clock& clock_;
  const LogWriter writer_;
  std::atomic<LogLevel> level_{LogLevel::kInfo};
  std::atomic<LogFormat> format_{LogFormat::kText};
  mutable std::mutex mutex_;
  std::array<std::string, kRecentMax> recent_;  // guarded by mutex_, as is count_
  std::size_t count_ = 0;
};

void LogDebug(std::string_view message, std::initializer_list<LogField> fields = {});
void LogInfo(std::string_view message, std::initializer_list<LogField> fields = {});
void LogWarning(std::string_view message, std::initializer_list<LogField> fields = {});
void LogError(std::string_view message, std::initializer_list<LogField> fields = {});

/// The two shapes of a line, newline included, as pure functions.
std::string FormatTextLine(Timestamp time, LogLevel level, std::string_view message,
                           std::initializer_list<LogField> fields);
std::string FormatJsonLine(Timestamp time, LogLevel level, std::string_view message,
                           std::initializer_list<LogField> fields);

}  // namespace sealane
