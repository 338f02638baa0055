#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dashboard/sighting.hpp"

namespace sealane::cli {

/// What does not change while the dashboard runs.
struct OverviewFacts {
  std::string version;
  std::string store;          ///< where it is, without passwords
  std::string command_flags;  ///< what makes a command of this program work on that store
};

/// The last look at a store, and how the figures went before it: what the first page shows. Thread-safe: one thread
/// looks, any other asks, and nobody who asks waits for a database.
class Overview {
 public:
  static constexpr std::size_t kPointsMax = 900;
  static constexpr std::chrono::seconds kRateWindow{10};

  Overview(OverviewFacts facts, std::chrono::seconds interval) : facts_(std::move(facts)), interval_(interval) {}

  void Note(Sighting seen);
  void NoteFailure(Error error);
  /// The last that worked; empty before the first. For the thread that looks.
  std::optional<Sighting> last() const;

  /// The document of /api/v1/overview.
  std::string Json(Timestamp now) const;

 private:
  /// How far everything was at one look.
  struct Mark {
    BootTime since{};
    std::int64_t seq_high = 0;
    std::map<std::string, std::int64_t> published = {};  ///< by route; missing: not known exactly
  };
  struct Point {
    Timestamp at{};
    std::optional<double> appended = {};
    std::optional<double> published = {};
    std::int64_t pending = 0;
    std::optional<std::chrono::microseconds> oldest = {};
    std::int64_t aside = 0;
    std::optional<std::chrono::microseconds> p99 = {};  ///< of the slowest route
  };
  static Mark MarkOf(const Sighting& seen);
  static std::optional<double> AppendedBetween(const Mark& from, const Mark& to);
  static std::optional<double> PublishedBetween(const Mark& from, const Mark& to, const std::string& route);
  std::string RouteJson(const RouteSummary& route) const;
  std::string HistoryJson() const;

  const OverviewFacts facts_;
  const std::chrono::seconds interval_;
  mutable std::mutex mutex_;
  std::optional<Sighting> last_;  // guarded by mutex_, as everything below
  std::optional<Error> problem_;  // of the last look
  std::deque<Mark> marks_;        // oldest first, those of kRateWindow
  std::deque<Point> points_;      // oldest first
};

/// `{"code":...,"message":...,"hint":...}`.
std::string ErrorJson(const Error& error);

}  // namespace sealane::cli
