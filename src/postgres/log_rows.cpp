#include "postgres/log_rows.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <numeric>

#include <endian.h>
#include <fmt/format.h>

namespace sealane::postgres {
namespace {

constexpr std::array<std::string_view, kLogColumns> kColumns = {"seq",
                                                                "xid",
                                                                "appended_at",
                                                                "occurred_at",
                                                                "available_at",
                                                                "aggregate_version",
                                                                "event_id",
                                                                "schema_version",
                                                                "lane",
                                                                "kind",
                                                                "tenant",
                                                                "topic",
                                                                "key",
                                                                "type",
                                                                "aggregate_type",
                                                                "aggregate_id",
                                                                "correlation_id",
                                                                "causation_id",
                                                                "traceparent",
                                                                "tracestate",
                                                                "producer",
                                                                "schema_id",
                                                                "content_type",
                                                                "headers",
                                                                "payload_hash",
                                                                "payload"};

// PostgreSQL counts from 2000-01-01.
constexpr std::chrono::microseconds kEpoch2000{946'684'800'000'000};
// What COPY sends before the first row.
constexpr std::string_view kSignature("PGCOPY\n\377\r\n\0", 11);
constexpr std::size_t kHeaderSize = 19;
constexpr std::size_t kRowOverhead = 32;  // of an allocation

Error BadRow(std::string_view why) {
  return Error(ErrorKind::kCorrupt, "bad_row", fmt::format("a row of the log cannot be read: {}", why));
}

template <class T>
T BigEndian(const char* at) {
  if constexpr (sizeof(T) == 2) {
    std::uint16_t raw = 0;
    std::memcpy(&raw, at, 2);
    return static_cast<T>(be16toh(raw));
  } else if constexpr (sizeof(T) == 4) {
    std::uint32_t raw = 0;
    std::memcpy(&raw, at, 4);
    return static_cast<T>(be32toh(raw));
  } else {
    std::uint64_t raw = 0;
    std::memcpy(&raw, at, 8);
    return static_cast<T>(be64toh(raw));
  }
}

// Walks over fields, each with its length before it; -1 is null.
class Fields {
 public:
  Fields(const char* at, const char* end) : at_(at), end_(end) {}

  bool good() const { return good_; }
  std::string_view Text() {
    Next();
    return field_;
  }
  template <class T>
  T Number() {
    Next();
    return Fixed<T>();
  }
  template <class T>
  std::optional<T> OptionalNumber() {
    Next();
    if (null_) return std::nullopt;
    return Fixed<T>();
  }
  Timestamp Time() { return Timestamp{std::chrono::microseconds{Number<std::int64_t>()} + kEpoch2000}; }
  std::optional<Timestamp> OptionalTime() {
    const auto raw = OptionalNumber<std::int64_t>();
    if (!raw) return std::nullopt;
    return Timestamp{std::chrono::microseconds{*raw} + kEpoch2000};
  }

 private:
  void Next() {
    null_ = true;
    field_ = {};
    if (!good_ || end_ - at_ < 4) {
      good_ = false;
      return;
    }
    const auto size = BigEndian<std::int32_t>(at_);
    at_ += 4;
    if (size < 0) return;
    if (end_ - at_ < size) {
      good_ = false;
      return;
    }
    null_ = false;
    field_ = std::string_view(at_, static_cast<std::size_t>(size));
    at_ += size;
  }
  template <class T>
  T Fixed() {
    if (field_.size() == sizeof(T)) return BigEndian<T>(field_.data());
    good_ = false;
    return {};
  }

  const char* at_;
  const char* end_;
  std::string_view field_;
  bool null_ = true;
  bool good_ = true;
};

}  // namespace

struct LogRows::Rows final : Page::Storage {
  ~Rows() override {
    for (char* row : copied) PQfreemem(row);
  }
  Rows() = default;
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  std::vector<char*> copied;
  std::deque<std::string> made;
};

std::string LogColumns(std::string_view table) {
  std::string list;
  for (const std::string_view column : kColumns)
    list += fmt::format("{}{}.{}", list.empty() ? "" : ", ", table, column);
  return list;
}

LogRows::LogRows() : rows_(std::make_unique<Rows>()) {}
LogRows::~LogRows() = default;

Status LogRows::TakeCopied(char* row, std::size_t size) {
  rows_->copied.push_back(row);
  row_bytes_ += size + kRowOverhead;
  const char* at = row;
  const char* const end = row + size;
  if (size >= kHeaderSize && std::string_view(row, kSignature.size()) == kSignature) at += kHeaderSize;
  if (end - at < 2) return at == end ? Ok() : Status(BadRow("it is cut off"));
  const auto count = BigEndian<std::int16_t>(at);
  if (count == -1) return Ok();  // the end of the stream
  if (count != kLogColumns) return BadRow("it has another number of columns");
  return Decode(at + 2, end);
}

Status LogRows::Copy(const PGresult* result, int row, int first_column) {
  std::size_t size = 0;
  for (int i = 0; i < kLogColumns; ++i)
    size += 4 + static_cast<std::size_t>(PQgetlength(result, row, first_column + i));
  std::string& made = rows_->made.emplace_back();
  made.reserve(size);
  for (int i = 0; i < kLogColumns; ++i) {
    const int column = first_column + i;
    const bool null = PQgetisnull(result, row, column) != 0;
    const int length = PQgetlength(result, row, column);
    const std::uint32_t raw = htobe32(static_cast<std::uint32_t>(null ? -1 : length));
    made.append(reinterpret_cast<const char*>(&raw), 4);
    if (!null) made.append(PQgetvalue(result, row, column), static_cast<std::size_t>(length));
  }
  row_bytes_ += made.size() + kRowOverhead;
  return Decode(made.data(), made.data() + made.size());
}

Status LogRows::Decode(const char* at, const char* end) {
  Fields fields(at, end);
  LogEntry& entry = entries_.emplace_back();
  EnvelopeView& event = entry.event;
  entry.seq = fields.Number<std::int64_t>();
  entry.place = fields.Number<std::uint64_t>();
  entry.appended_at = fields.Time();
  event.occurred_at = fields.Time();
  event.available_at = fields.OptionalTime();
  event.aggregate_version = fields.OptionalNumber<std::int64_t>();
  const std::string_view id = fields.Text();
  event.schema_version = fields.Number<std::int32_t>();
  entry.lane = fields.Number<std::int16_t>();
  const std::string_view kind = fields.Text();
  event.tenant = fields.Text();
  event.topic = fields.Text();
  event.key = fields.Text();
  event.type = fields.Text();
  event.aggregate_type = fields.Text();
  event.aggregate_id = fields.Text();
  event.correlation_id = fields.Text();
  event.causation_id = fields.Text();
  event.traceparent = fields.Text();
  event.tracestate = fields.Text();
  event.producer = fields.Text();
  event.schema_id = fields.Text();
  event.content_type = fields.Text();
  event.headers_json = fields.Text();
  event.payload_hash = fields.Text();
  event.payload = fields.Text();
  if (!fields.good() || id.size() != EventId::kSize || event.payload_hash.size() != 32)
    return BadRow("a field is cut off");
  EventId::Bytes bytes{};
  std::memcpy(bytes.data(), id.data(), bytes.size());
  event.id = EventId(bytes);
  event.kind = kind == "command" ? EventKind::kCommand : EventKind::kEvent;
  return Ok();
}

std::size_t LogRows::bytes() const {
  return row_bytes_ + entries_.size() * sizeof(LogEntry);
}

Page LogRows::Finish() && {
  const auto by_seq = [](const LogEntry& a, const LogEntry& b) { return a.seq < b.seq; };
  if (!std::is_sorted(entries_.begin(), entries_.end(), by_seq)) {
    // Entries are large: their numbers are sorted, then each is moved once.
    std::vector<std::uint32_t> order(entries_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return entries_[a].seq < entries_[b].seq; });
    std::vector<LogEntry> sorted;
    sorted.reserve(entries_.size());
    for (const std::uint32_t i : order) sorted.push_back(entries_[i]);
    entries_ = std::move(sorted);
  }
  return std::move(*this).FinishAsRead();
}

Page LogRows::FinishAsRead() && {
  Page page;
  page.bytes = bytes();
  page.entries = std::move(entries_);
  page.storage = std::move(rows_);
  return page;
}

}  // namespace sealane::postgres
