#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include "sealane/clock.hpp"

#include "outbox/outbox_log.hpp"
#include "postgres/connection.hpp"
#include "postgres/log_rows.hpp"
#include "postgres/snapshot.hpp"

namespace sealane::postgres {

/// Reads what was committed between two snapshots.
///
/// A window is "visible in `to`, not in `from`", in the order of seq. By the rule of decision 0002 that order never
/// inverts two events of one key, also across windows, and no row is left out, however long its transaction was open.
///
/// A small window is one look into the index by transaction number. A large one (after an outage, or of a huge
/// transaction) is read in stretches of seq, found through block ranges, each sized so that its page stays within its
/// bytes. Nothing is held open between two pages.
class WindowReader {
 public:
  WindowReader(PGconn* connection, std::string quoted_schema)
      : connection_(connection), schema_(std::move(quoted_schema)) {}

  /// Before anything else, once per connection.
  Status Prepare();
  Result<Horizon> Look();
  Result<Page> Read(const ReadRequest& request);

 private:
  struct Window;
  enum class Fit : std::uint8_t { kWhole, kTooLarge };

  Status Mark();
  Status AwaitDisk(const Horizon& horizon);
  Result<bool> IsOnDisk(const Horizon& horizon);
  Status Settle(const Snapshot& snapshot);
  Status WriteTick(const Snapshot& snapshot);
  Result<Fit> Select(const Window& window, const ReadRequest& request, LogRows& rows);
  Result<Fit> CopyOut(const std::string& conditions, const ReadRequest& request, LogRows& rows);
  Result<Fit> CopyRows(const std::string& conditions, const ReadRequest& request, LogRows& rows);
  Result<Page> ReadWindow(const ReadRequest& request);
  Result<Page> ReadStretch(const Window& window, const ReadRequest& request);
  Result<std::optional<Page>> ReadOldOnes(const Window& window, const ReadRequest& request, std::int64_t& from_seq);
  Status Summarize(std::int64_t seq_high);
  Result<PgResult> ExecuteLong(const std::string& sql);
  std::string TenantCondition(const ReadRequest& request) const;
  std::string LaneCondition(const ReadRequest& request) const;
  std::int64_t& WidthFor(const ReadRequest& request) {
    return widths_[request.all_but || request.tenants.empty() ? 0 : 1];
  }
  void Adapt(std::size_t rows, std::size_t bytes, const ReadRequest& request);

  PGconn* connection_;
  std::string schema_;
  std::string look_;             // the statement of Look()
  bool pooled_ = false;          // nothing can be prepared
  std::size_t lanes_ = 0;        // of the outbox
  std::int64_t server_ = 0;      // which life of the server that was
  std::int64_t last_high_ = -1;  // seen before what is done next; -1: not looked yet
  std::int64_t low_ = -1;        // seen before the last mark; -1: there is none
  BootTime marked_at_{0};
  BootTime ticked_at_{0};
  std::int64_t ticked_high_ = -1;
  std::int64_t summarized_high_ = 0;
  // Of a stretch, in numbers: for all tenants or all but some, and for some alone. What is dense for one is empty for
  // the other.
  std::array<std::int64_t, 2> widths_ = {0, 0};
  std::uint64_t on_disk_ = 0;      // the log is written up to here, at least
  std::optional<Position> dense_;  // after a stretch of old rows that had some
};

}  // namespace sealane::postgres
