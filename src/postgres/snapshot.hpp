#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/result.hpp"

namespace sealane::postgres {

/// A pg_snapshot with the sequence numbers around it and the server it is from: what a Position's `cursor` and
/// `window` hold, as `xmin:xmax:xip,.../low/high/server`.
///
/// server: when that server was started (server_start()). Another life of the server may hand the same transaction
/// numbers out again, so a snapshot means nothing there.
/// low: every row that is not visible here and whose transaction is not listed as running has a seq above it. high:
/// every row that is visible here has a seq up to it. Zero low: unknown.
struct Snapshot {
  std::uint64_t xmin = 1;
  std::uint64_t xmax = 1;
  std::vector<std::uint64_t> running;  ///< sorted
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t server = 0;

  /// kCorrupt (`bad_position`) for anything that Text() did not write.
  static Result<Snapshot> Parse(std::string_view text);
  std::string Text() const;
  /// The pg_snapshot alone, as the server reads it.
  std::string Server() const;

  bool Sees(std::uint64_t xid) const;
  /// Whether this one sees everything that the other does.
  bool Covers(const Snapshot& other) const;
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

/// Which transactions a window (from, to] may have rows of: a range, and those that were running at `from` and are
/// not any more. A transaction that was open for hours costs one more look into the index, not a scan over everything
/// since.
struct Stretch {
  std::uint64_t first = 0;  ///< from here
  std::uint64_t end = 0;    ///< below
  std::vector<std::uint64_t> old;
};
/// Those that `from` lists as running and `to` does not.
std::vector<std::uint64_t> FinishedBetween(const Snapshot& from, const Snapshot& to);
Stretch StretchOf(const Snapshot& from, const Snapshot& to);

}  // namespace sealane::postgres
