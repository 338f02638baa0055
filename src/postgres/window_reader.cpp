#include "postgres/window_reader.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>

#include <endian.h>
#include <fmt/format.h>
#include <sys/ioctl.h>

#include "base/log.hpp"
#include "postgres/connection.hpp"
#include "postgres/session_settings.hpp"
#include "postgres/sql_state.hpp"
#include "postgres/sql_text.hpp"

namespace sealane::postgres {
namespace {

// Up to this many new numbers a window is read by a prepared statement; above, planning is the smaller part of the
// work and COPY moves rows with less effort. Through a pooler nothing is prepared, and COPY does both.
constexpr std::int64_t kSelectMax = 500;
constexpr std::int64_t kWidthMax = 50'000'000;
constexpr double kGrowthMax = 4.0;  // of a stretch, from one to the next
// What is summarised anew by itself is not worth a call.
constexpr std::int64_t kSummarizeAfter = 20'000;
constexpr std::chrono::seconds kTickInterval{1};
constexpr std::chrono::microseconds kNap{300};
constexpr int kNapsMax = 3;  // in a row; then nothing flows
constexpr std::chrono::seconds kMarkInterval{1};

// As PQgetCopyData(), and waits. Somebody who sleeps at the socket is woken by every 8 KiB that the server sends, and
// on one machine that costs the server a fifth of its time. So while rows flow, they are left to gather for a moment.
int NextCopied(PGconn* connection, char** row) {
  for (int naps = 0; naps < kNapsMax;) {
    const int size = PQgetCopyData(connection, row, 1);
    if (size != 0) return size;
    int waiting = 0;
    if (::ioctl(PQsocket(connection), FIONREAD, &waiting) != 0 || waiting == 0) {
      std::this_thread::sleep_for(kNap);
      ++naps;
    }
    if (PQconsumeInput(connection) == 0) return -2;
  }
  return PQgetCopyData(connection, row, 0);
}

// A place in the write-ahead log, as the server writes it: two halves in hexadecimal digits.
std::uint64_t LsnOf(const std::string& text) {
  unsigned high = 0;
  unsigned low = 0;
  if (std::sscanf(text.c_str(), "%X/%X", &high, &low) != 2) return std::numeric_limits<std::uint64_t>::max();
  return std::uint64_t{high} << 32U | low;
}
std::uint64_t BinaryLsn(const char* bytes) {
  std::uint64_t raw = 0;
  std::memcpy(&raw, bytes, sizeof raw);
  return be64toh(raw);
}

std::string Quoted(PGconn* connection, const std::string& text) {
  char* const quoted = PQescapeLiteral(connection, text.c_str(), text.size());
  if (quoted == nullptr) return "''";  // not UTF-8: matches nothing, and cannot be in the table either
  std::string copy(quoted);
  PQfreemem(quoted);
  return copy;
}

Error ServerChanged() {
  return Error(ErrorKind::kFenced, "server_changed",
               "the database server was replaced or restarted, and this position is from before that")
      .WithHint("the relay takes its lanes anew from the store; nothing has to be done");
}

std::int64_t NumberAt(const PgResult& result, int column) {
  return IntAt(result, 0, column);
}

// Stops a statement whose rest is not wanted, and takes what it still sends.
void Cancel(PGconn* connection) {
  if (PGcancel* const cancel = PQgetCancel(connection)) {
    std::array<char, 256> ignored{};
    PQcancel(cancel, ignored.data(), ignored.size());
    PQfreeCancel(cancel);
  }
}

void DrainResults(PGconn* connection) {
  while (PGresult* raw = PQgetResult(connection)) {
    const PgResult result(raw);
    if (PQresultStatus(raw) != PGRES_COPY_OUT) continue;
    char* row = nullptr;
    while (PQgetCopyData(connection, &row, 0) > 0) PQfreemem(row);
  }
}

}  // namespace

struct WindowReader::Window {
  Snapshot from;
  Snapshot to;
  std::int64_t seq = 0;  // done up to here
  bool begun = false;    // `to` was given, not chosen

  // The server that a pooler, or whatever stands in front, hands a statement to may be another one by now.
  std::string Conditions(const std::string& schema) const {
    std::string seen =
        fmt::format("{}.server_start() = {} and pg_visible_in_snapshot(o.xid, '{}')", schema, to.server, to.Server());
    if (from.xmax > 1) seen += fmt::format(" and not pg_visible_in_snapshot(o.xid, '{}')", from.Server());
    return seen;
  }
  Position At(std::int64_t done) const { return {.cursor = from.Text(), .window = to.Text(), .seq = done}; }
};

Status WindowReader::Prepare() {
  // The plans must not depend on statistics: a fresh partition has none, and a sequential scan of the log would be a
  // catastrophe where an index is at hand. An open window must be durable, whatever the role's default is.
  const std::array<Setting, 5> settings = {
      Setting{"synchronous_commit", "on"},
      {"enable_seqscan", "off"},
      {"plan_cache_mode", "force_generic_plan"},
      {"max_parallel_workers_per_gather", "0"},
      // A relay that falls asleep inside a transaction must not keep its heirs from the lanes it has locked.
      {"idle_in_transaction_session_timeout", "2000"}};
  SEALANE_RETURN_IF_ERROR(AddSettings(connection_, settings));
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult lanes,
      Execute(connection_, fmt::format("select value::int from {}.setting where name = 'lanes'", schema_)));
  lanes_ = PQntuples(lanes.get()) == 1 ? static_cast<std::size_t>(IntAt(lanes, 0, 0)) : 0;
  // The position of the disk comes along, so that AwaitDisk() need not ask for it.
  const std::string window = fmt::format(
      "select {columns}, pg_current_wal_flush_lsn() from {schema}.outbox o "
      "where o.xid >= $1::xid8 and o.xid < $2::xid8 and o.lane = any ($3::smallint[]) "
      "and pg_visible_in_snapshot(o.xid, $4::pg_snapshot) and not pg_visible_in_snapshot(o.xid, $5::pg_snapshot) "
      "and ($6::text[] is null or o.tenant = any ($6::text[])) and ($7::text[] is null or o.tenant <> all "
      "($7::text[])) and {schema}.server_start() = $8::int8",
      fmt::arg("columns", LogColumns("o")), fmt::arg("schema", schema_));
  // The numbers are read after the statement's snapshot was taken: what the snapshot sees has a seq up to last_value
  // and a commit record before the insert position.
  look_ = fmt::format(
      "select last_value - case when is_called then 0 else 1 end, pg_current_snapshot(), "
      "pg_current_wal_insert_lsn() <= pg_current_wal_flush_lsn(), pg_current_wal_insert_lsn(), "
      "(extract(epoch from clock_timestamp()) * 1000000)::int8, {0}.server_start() from {0}.outbox_seq_seq",
      schema_);
  // Another transaction would not find there what was prepared.
  pooled_ = IsPooled(connection_);
  if (pooled_) return Ok();
  const PgResult window_made(PQprepare(connection_, "sealane_window", window.c_str(), 8, nullptr));
  SEALANE_RETURN_IF_ERROR(CheckResult(connection_, window_made.get()));
  const PgResult look_made(PQprepare(connection_, "sealane_look", look_.c_str(), 0, nullptr));
  return CheckResult(connection_, look_made.get());
}

// ---- looking ------------------------------------------------------------------------------------

// The lower bound of windows that begin at a later snapshot. A snapshot ends at the newest transaction that was
// complete; newer ones may have been running already, unlisted, and may have drawn numbers. So a transaction of our
// own is put between: what gets a number after it began after the sequence was read, and every snapshot from now on
// ends behind it.
Status WindowReader::Mark() {
  marked_at_ = SystemClock::Instance().SinceBoot();
  SEALANE_RETURN_IF_ERROR(Execute(connection_, "select pg_current_xact_id()"));
  low_ = last_high_;
  return Ok();
}

Result<Horizon> WindowReader::Look() {
  const bool moved = last_high_ > low_;
  if (moved && SystemClock::Instance().SinceBoot() - marked_at_ >= kMarkInterval) SEALANE_RETURN_IF_ERROR(Mark());
  const PgResult result(pooled_ ? RunParams(connection_, look_, 0, nullptr, nullptr, nullptr, nullptr, 0)
                                : PQexecPrepared(connection_, "sealane_look", 0, nullptr, nullptr, nullptr, 0));
  SEALANE_RETURN_IF_ERROR(CheckResult(connection_, result.get()));
  const bool first = last_high_ < 0;
  last_high_ = NumberAt(result, 0);
  if (const std::int64_t server = NumberAt(result, 5); server != server_) {
    // What was seen before belongs to another life of the server.
    server_ = server;
    low_ = -1;
    on_disk_ = 0;
    ticked_high_ = -1;
    dense_.reset();
  }
  if (first) return Look();  // now there is something to put a mark behind
  SEALANE_ASSIGN_OR_RETURN(Snapshot snapshot, Snapshot::Parse(TextAt(result, 0, 1)));
  snapshot.high = last_high_;
  snapshot.low = std::max<std::int64_t>(low_, 0);
  snapshot.server = NumberAt(result, 5);
  const bool on_disk = TextAt(result, 0, 2) == "t";
  return Horizon{.cursor = snapshot.Text(),
                 .seq_high = snapshot.high,
                 .at = TimeAt(result, 0, 4),
                 .durable_from = on_disk ? "" : std::string(TextAt(result, 0, 3))};
}

// The snapshot may see commits that are not on disk yet (synchronous_commit = off). Mostly it is only that somebody
// else has written something since, and while the rows were read it has come to the disk. Otherwise a commit of our
// own that waits for the disk takes everything before it along.
Status WindowReader::AwaitDisk(const Horizon& horizon) {
  SEALANE_ASSIGN_OR_RETURN(const bool on_disk, IsOnDisk(horizon));
  if (on_disk) return Ok();
  SEALANE_ASSIGN_OR_RETURN(const Snapshot snapshot, Snapshot::Parse(horizon.cursor));
  SEALANE_RETURN_IF_ERROR(Settle(snapshot));
  on_disk_ = LsnOf(horizon.durable_from);
  return Ok();
}

Result<bool> WindowReader::IsOnDisk(const Horizon& horizon) {
  if (horizon.durable_from.empty() || LsnOf(horizon.durable_from) <= on_disk_) return true;
  const std::vector<TextParameter> parameters = {horizon.durable_from};
  SEALANE_ASSIGN_OR_RETURN(const PgResult reached,
                           Execute(connection_, "select $1::pg_lsn <= pg_current_wal_flush_lsn()", parameters));
  if (TextAt(reached, 0, 0) != "t") return false;
  on_disk_ = LsnOf(horizon.durable_from);
  return true;
}

Status WindowReader::Settle(const Snapshot& snapshot) {
  const BootTime now = SystemClock::Instance().SinceBoot();
  if (now - ticked_at_ >= kTickInterval && snapshot.high != ticked_high_) {
    ticked_at_ = now;
    ticked_high_ = snapshot.high;
    return WriteTick(snapshot);
  }
  SEALANE_RETURN_IF_ERROR(Execute(connection_, "select pg_logical_emit_message(true, 'sealane.barrier', '')"));
  return Ok();
}

Status WindowReader::WriteTick(const Snapshot& snapshot) {
  const std::array<TextParameter, 2> parameters = {std::to_string(snapshot.high), snapshot.Server()};
  SEALANE_RETURN_IF_ERROR(
      Execute(connection_,
              fmt::format("insert into {}.tick (seq_high, snapshot) values ($1::int8, $2::pg_snapshot)", schema_),
              parameters));
  return Ok();
}

// ---- reading ------------------------------------------------------------------------------------

std::string WindowReader::TenantCondition(const ReadRequest& request) const {
  if (request.tenants.empty()) return {};
  return fmt::format(" and o.tenant {} ({}::text[])", request.all_but ? "<> all" : "= any",
                     Quoted(connection_, TextArray(request.tenants)));
}

std::string WindowReader::LaneCondition(const ReadRequest& request) const {
  if (request.lanes.size() == lanes_) return {};
  return fmt::format(" and o.lane = any ('{}'::smallint[])", NumberArray(request.lanes));
}

Result<Page> WindowReader::Read(const ReadRequest& request) {
  SEALANE_ASSIGN_OR_RETURN(Page page, ReadWindow(request));
  if (page.entries.empty() && page.next == *request.from) return page;  // the position stays anyhow
  // A crash of the server takes back what is not on disk, and hands the numbers of those transactions out again. So
  // neither an event nor a position leaves here before; but nobody is made to wait for a position over nothing.
  if (page.entries.empty() && page.next.window.empty() && request.from->window.empty()) {
    SEALANE_ASSIGN_OR_RETURN(const bool on_disk, IsOnDisk(*request.horizon));
    if (!on_disk) page.next = *request.from;
    return page;
  }
  SEALANE_RETURN_IF_ERROR(AwaitDisk(*request.horizon));
  return page;
}

Result<Page> WindowReader::ReadWindow(const ReadRequest& request) {
  Window window;
  SEALANE_ASSIGN_OR_RETURN(window.from, Snapshot::Parse(request.from->cursor));
  SEALANE_ASSIGN_OR_RETURN(const Snapshot horizon, Snapshot::Parse(request.horizon->cursor));
  if (window.from.server != horizon.server) {
    return ServerChanged();
  }
  window.begun = !request.from->window.empty();
  window.seq = request.from->seq;
  SEALANE_ASSIGN_OR_RETURN(window.to, Snapshot::Parse(window.begun ? request.from->window : request.horizon->cursor));

  if (!window.begun && window.from.Covers(window.to)) {
    // Nothing new, or a horizon from before the position: that must not lead back.
    Page page;
    page.next = *request.from;
    page.caught_up = true;
    return page;
  }
  if (!window.begun && window.to.high <= window.from.low && FinishedBetween(window.from, window.to).empty()) {
    // Nobody has drawn a number since, and those who had one then are done: what was committed are no events.
    Page page;
    page.next = Position{.cursor = window.to.Text()};
    page.caught_up = page.next.cursor == request.horizon->cursor;
    return page;
  }
  // A window that was begun goes on by seq. Otherwise the numbers drawn since tell how large it can be, apart from
  // transactions that were open for long; should those not fit, it is read by seq after all.
  const std::int64_t news = window.to.high - window.from.high;
  if (!window.begun && news <= static_cast<std::int64_t>(request.entries_max)) {
    LogRows rows;
    Fit fit = Fit::kWhole;
    if (news <= kSelectMax && !pooled_) {
      SEALANE_ASSIGN_OR_RETURN(fit, Select(window, request, rows));
    } else {
      const Stretch stretch = StretchOf(window.from, window.to);
      const std::string old =
          stretch.old.empty() ? "" : fmt::format(" or o.xid = any ('{}'::xid8[])", NumberArray(stretch.old));
      SEALANE_ASSIGN_OR_RETURN(fit, CopyOut(fmt::format("((o.xid >= '{}'::xid8 and o.xid < '{}'::xid8){}) and {}",
                                                        stretch.first, stretch.end, old, window.Conditions(schema_)),
                                            request, rows));
    }
    if (fit == Fit::kWhole) {
      Page page = std::move(rows).Finish();
      page.next = Position{.cursor = window.to.Text()};
      page.caught_up = window.to.Text() == request.horizon->cursor;
      return page;
    }
  }
  return ReadStretch(window, request);
}

Result<WindowReader::Fit> WindowReader::Select(const Window& window, const ReadRequest& request, LogRows& rows) {
  const Stretch stretch = StretchOf(window.from, window.to);
  const std::string lanes = NumberArray(request.lanes);
  const std::string to = window.to.Server();
  const std::string from = window.from.Server();
  const std::string server = std::to_string(window.to.server);
  const std::string tenants = TextArray(request.tenants);
  const char* const include = request.tenants.empty() || request.all_but ? nullptr : tenants.c_str();
  const char* const exclude = request.tenants.empty() || !request.all_but ? nullptr : tenants.c_str();

  std::vector<std::pair<std::string, std::string>> ranges;
  if (stretch.first < stretch.end) ranges.emplace_back(std::to_string(stretch.first), std::to_string(stretch.end));
  for (const std::uint64_t xid : stretch.old) ranges.emplace_back(std::to_string(xid), std::to_string(xid + 1));

  for (const auto& [first, end] : ranges) {
    const std::array<const char*, 8> values = {first.c_str(), end.c_str(), lanes.c_str(), to.c_str(),
                                               from.c_str(),  include,     exclude,       server.c_str()};
    if (PQsendQueryPrepared(connection_, "sealane_window", 8, values.data(), nullptr, nullptr, 1) == 0) {
      return CheckResult(connection_, nullptr).error();
    }
    PQsetSingleRowMode(connection_);
    while (PGresult* raw = PQgetResult(connection_)) {
      const PgResult result(raw);
      const bool is_row = PQresultStatus(raw) == PGRES_SINGLE_TUPLE;
      Status good = is_row ? rows.Copy(raw, 0, 0) : CheckResult(connection_, raw);
      if (is_row && good) on_disk_ = std::max(on_disk_, BinaryLsn(PQgetvalue(raw, 0, kLogColumns)));
      const bool too_large = good && rows.bytes() > request.bytes_max && rows.size() > 1;
      if (good && !too_large) continue;
      if (too_large) Cancel(connection_);
      DrainResults(connection_);
      if (!good) return std::move(good).error();
      return Fit::kTooLarge;
    }
  }
  return Fit::kWhole;
}

Result<WindowReader::Fit> WindowReader::CopyOut(const std::string& conditions, const ReadRequest& request,
                                                LogRows& rows) {
  if (!pooled_) return CopyRows(conditions, request, rows);
  // Inside a transaction, which has our settings.
  SEALANE_RETURN_IF_ERROR(Execute(connection_, "begin"));
  // Rows of another server are none, and none must not look like the end.
  Result<Fit> fit = [&]() -> Result<Fit> {
    SEALANE_ASSIGN_OR_RETURN(const PgResult here,
                             Execute(connection_, fmt::format("select {}.server_start()", schema_)));
    SEALANE_ASSIGN_OR_RETURN(const Snapshot looked, Snapshot::Parse(request.horizon->cursor));
    if (NumberAt(here, 0) != looked.server) return ServerChanged();
    return CopyRows(conditions, request, rows);
  }();
  const auto ended = Execute(connection_, "rollback");  // nothing was written, and it may have been cancelled
  if (fit && !ended) return ended.error();
  return fit;
}

Result<WindowReader::Fit> WindowReader::CopyRows(const std::string& conditions, const ReadRequest& request,
                                                 LogRows& rows) {
  const std::string sql =
      fmt::format("copy (select {} from {}.outbox o where {}{}{}) to stdout (format binary)", LogColumns("o"),
                  schema_, conditions, LaneCondition(request), TenantCondition(request));
  if (PQsendQuery(connection_, sql.c_str()) == 0) return CheckResult(connection_, nullptr).error();
  const PgResult begun(PQgetResult(connection_));
  if (PQresultStatus(begun.get()) != PGRES_COPY_OUT) {
    Status failed = CheckResult(connection_, begun.get());
    DrainResults(connection_);
    return failed ? Error(ErrorKind::kCorrupt, "bad_row", "the server did not begin to copy")
                  : std::move(failed).error();
  }
  char* row = nullptr;
  int size = 0;
  while ((size = NextCopied(connection_, &row)) > 0) {
    if (Status taken = rows.TakeCopied(row, static_cast<std::size_t>(size)); !taken) {
      Cancel(connection_);
      DrainResults(connection_);
      return std::move(taken).error();
    }
    if (rows.bytes() > request.bytes_max && rows.size() > 1) {
      Cancel(connection_);
      DrainResults(connection_);
      return Fit::kTooLarge;
    }
  }
  while (PGresult* raw = PQgetResult(connection_)) {
    const PgResult result(raw);
    if (Status done = CheckResult(connection_, raw); !done) {
      DrainResults(connection_);
      return std::move(done).error();
    }
  }
  return Fit::kWhole;
}

// ---- large windows ------------------------------------------------------------------------------

Status WindowReader::Summarize(std::int64_t seq_high) {
  if (seq_high - summarized_high_ < kSummarizeAfter) return Ok();
  summarized_high_ = seq_high;
  // May read as much as was written since the last time.
  const Result<PgResult> done = ExecuteLong(fmt::format("select {}.summarize_log()", schema_));
  if (done) return Ok();
  LogWarning("block ranges were not summarised: a backlog takes longer", {{"error", done.error().ToString()}});
  if (PQstatus(connection_) != CONNECTION_OK) return done.error();
  return Ok();
}

// What depends on the size of a backlog is not bound by the timeout of small statements.
Result<PgResult> WindowReader::ExecuteLong(const std::string& sql) {
  SEALANE_RETURN_IF_ERROR(Execute(connection_, "begin"));
  Result<PgResult> done = [&]() -> Result<PgResult> {
    SEALANE_RETURN_IF_ERROR(Execute(connection_, "set local statement_timeout = '10min'"));
    return Execute(connection_, sql);
  }();
  SEALANE_RETURN_IF_ERROR(Execute(connection_, done ? "commit" : "rollback"));
  return done;
}

void WindowReader::Adapt(std::size_t rows, std::size_t bytes, const ReadRequest& request) {
  // An empty stretch says that wider ones are needed, also to somebody who asks for one row.
  const double by_rows =
      rows == 0 ? kGrowthMax : static_cast<double>(request.entries_max) / static_cast<double>(rows);
  const double by_bytes =
      0.85 * static_cast<double>(request.bytes_max) / static_cast<double>(std::max<std::size_t>(bytes, 1));
  const double grown =
      static_cast<double>(WidthFor(request)) * std::clamp(std::min(by_rows, by_bytes), 1 / kGrowthMax, kGrowthMax);
  WidthFor(request) = std::clamp(static_cast<std::int64_t>(grown), std::int64_t{1}, kWidthMax);
}

// Rows with numbers below the window's lower bound: of transactions that were open at its beginning and are done now.
// Few of them are read at once; many of them by stretches, beginning with the lowest.
Result<std::optional<Page>> WindowReader::ReadOldOnes(const Window& window, const ReadRequest& request,
                                                      std::int64_t& from_seq) {
  // Among the rows of one huge transaction the next ones are near. Counting what is left of it for every page would
  // take longer than reading it.
  if (dense_ == *request.from) return std::optional<Page>();
  const std::vector<std::uint64_t> old = FinishedBetween(window.from, window.to);
  if (old.empty()) {
    from_seq = window.from.low;
    return std::optional<Page>();
  }
  const std::string conditions =
      fmt::format("o.xid = any ('{}'::xid8[]) and o.seq > {} and o.seq <= {} and {}.server_start() = {}",
                  NumberArray(old), window.seq, window.from.low, schema_, window.to.server);
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult found,
      ExecuteLong(fmt::format("select count(*), coalesce(min(o.seq), 0), {0}.server_start() from {0}.outbox o"
                              " where {1}{2}{3}",
                              schema_, conditions, LaneCondition(request), TenantCondition(request))));
  if (NumberAt(found, 2) != window.to.server) return ServerChanged();
  const std::int64_t count = NumberAt(found, 0);
  if (count == 0) {
    from_seq = window.from.low;
    return std::optional<Page>();
  }
  if (count <= static_cast<std::int64_t>(request.entries_max)) {
    LogRows rows;
    SEALANE_ASSIGN_OR_RETURN(const Fit fit, CopyOut(conditions, request, rows));
    if (fit == Fit::kWhole) {
      Page page = std::move(rows).Finish();
      page.next = window.At(window.from.low);
      return std::optional<Page>(std::move(page));
    }
  }
  from_seq = NumberAt(found, 1) - 1;
  return std::optional<Page>();
}

Result<Page> WindowReader::ReadStretch(const Window& window, const ReadRequest& request) {
  SEALANE_RETURN_IF_ERROR(Summarize(window.to.high));
  std::int64_t from_seq = window.seq;
  if (from_seq < window.from.low) {
    SEALANE_ASSIGN_OR_RETURN(std::optional<Page> page, ReadOldOnes(window, request, from_seq));
    if (page) return std::move(*page);
  }
  std::int64_t& width = WidthFor(request);
  if (width == 0) width = static_cast<std::int64_t>(request.entries_max);
  while (true) {
    // Never across the lower bound, so that a position on either side of it means the same to everybody.
    const std::int64_t bound = from_seq < window.from.low ? window.from.low : window.to.high;
    const std::int64_t to_seq = std::min(from_seq + width, bound);
    LogRows rows;
    SEALANE_ASSIGN_OR_RETURN(const Fit fit, CopyOut(fmt::format("o.seq > {} and o.seq <= {} and {}", from_seq, to_seq,
                                                                window.Conditions(schema_)),
                                                    request, rows));
    if (fit == Fit::kTooLarge) {
      width = std::max<std::int64_t>(width / 4, 1);
      continue;
    }
    Adapt(rows.size(), rows.bytes(), request);
    Page page = std::move(rows).Finish();
    if (to_seq >= window.to.high) {
      page.next = Position{.cursor = window.to.Text()};
      page.caught_up = window.to.Text() == request.horizon->cursor;
    } else {
      page.next = window.At(to_seq);
      if (to_seq < window.from.low && !page.entries.empty()) dense_ = page.next;
    }
    return page;
  }
}

}  // namespace sealane::postgres
