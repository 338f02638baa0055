#include "sqlite/outbox_log_page.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "base/sha256.hpp"

namespace sealane::sqlite {
namespace {

constexpr std::size_t kBlockBytes = 128 * 1024;
constexpr std::size_t kFirstEntries = 64;

enum Column {
  kSeq,
  kEventId,
  kKind,
  kSchemaVersion,
  kAggregateVersion,
  kOccurredAt,
  kAvailableAt,
  kAppendedAt,
  kFirstText,
};

/// Where the texts go, in the order of their columns; payload and hash follow them.
constexpr std::array kTexts = {
    &EnvelopeView::type,           &EnvelopeView::tenant,
    &EnvelopeView::topic,          &EnvelopeView::key,
    &EnvelopeView::aggregate_type, &EnvelopeView::aggregate_id,
    &EnvelopeView::correlation_id, &EnvelopeView::causation_id,
    &EnvelopeView::traceparent,    &EnvelopeView::tracestate,
    &EnvelopeView::producer,       &EnvelopeView::schema_id,
    &EnvelopeView::content_type,   &EnvelopeView::headers_json,
};
constexpr int kPayload = kFirstText + static_cast<int>(kTexts.size());
constexpr int kPayloadHash = kPayload + 1;

std::string_view TextAt(sqlite3_stmt* row, int column) {
  // The pointer is asked for before the size, because asking may convert the value.
  const auto* const data = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  return data == nullptr ? std::string_view()
                         : std::string_view(data, static_cast<std::size_t>(sqlite3_column_bytes(row, column)));
}

std::string_view BlobAt(sqlite3_stmt* row, int column) {
  const auto* const data = static_cast<const char*>(sqlite3_column_blob(row, column));
  return data == nullptr ? std::string_view()
                         : std::string_view(data, static_cast<std::size_t>(sqlite3_column_bytes(row, column)));
}

Timestamp TimeAt(sqlite3_stmt* row, int column) {
  return Timestamp{std::chrono::microseconds{sqlite3_column_int64(row, column)}};
}

Error Corrupt(std::int64_t seq, std::string_view what) {
  return Error(ErrorKind::kCorrupt, "store_corrupt", fmt::format("event with seq {} has {}", seq, what))
      .WithHint("look at the row in sealane_outbox and restore it from a backup");
}

}  // namespace

class PageBuilder::Blocks final : public Page::Storage {
 public:
  char* Add(std::size_t size) { return blocks_.emplace_back(std::make_unique_for_overwrite<char[]>(size)).get(); }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
};

char* PageBuilder::Take(std::size_t size) {
  const std::size_t entries_bytes = (size_t{1} + page_.entries.size()) * sizeof(LogEntry);
  const std::size_t used = allocated_ + entries_bytes;
  if (size > free_size_) {
    if (!empty() && used + size > bytes_max_) return nullptr;
    const std::size_t left = bytes_max_ > used ? bytes_max_ - used : 0;
    // The last block leaves room for the entries that will point into it.
    const std::size_t block = std::max(size, std::min(kBlockBytes, left / 2));
    if (page_.storage == nullptr) page_.storage = std::make_unique<Blocks>();
    free_begin_ = static_cast<Blocks&>(*page_.storage).Add(block);
    free_size_ = block;
    allocated_ += block;
  } else if (!empty() && used > bytes_max_) {
    return nullptr;
  }
  char* const taken = free_begin_;
  free_begin_ += size;
  free_size_ -= size;
  return taken;
}

Result<bool> PageBuilder::Add(sqlite3_stmt* row, int first_column) {
  const auto column = [first_column](int index) { return first_column + index; };
  LogEntry entry;
  entry.seq = sqlite3_column_int64(row, column(kSeq));
  entry.place = static_cast<std::uint64_t>(entry.seq);
  entry.appended_at = TimeAt(row, column(kAppendedAt));
  EnvelopeView& event = entry.event;
  const auto id = EventId::Parse(TextAt(row, column(kEventId)));
  const auto kind = ParseEventKind(TextAt(row, column(kKind)));
  if (!id || !kind) return Corrupt(entry.seq, "an id or a kind that is none");
  event.id = *id;
  event.kind = *kind;
  event.schema_version = static_cast<std::int32_t>(sqlite3_column_int64(row, column(kSchemaVersion)));
  if (sqlite3_column_type(row, column(kAggregateVersion)) != SQLITE_NULL) {
    event.aggregate_version = sqlite3_column_int64(row, column(kAggregateVersion));
  }
  event.occurred_at = TimeAt(row, column(kOccurredAt));
  if (sqlite3_column_type(row, column(kAvailableAt)) != SQLITE_NULL) {
    event.available_at = TimeAt(row, column(kAvailableAt));
  }

  // SQLite's own bytes, which are gone with the next step.
  std::size_t size = 0;
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    event.*kTexts[i] = TextAt(row, column(kFirstText + static_cast<int>(i)));
    size += (event.*kTexts[i]).size();
  }
  event.payload = BlobAt(row, column(kPayload));
  // Events that came by plain SQL have no hash yet.
  Sha256Digest digest{};
  event.payload_hash = BlobAt(row, column(kPayloadHash));
  if (event.payload_hash.empty()) {
    digest = Sha256(event.payload);
    event.payload_hash = {reinterpret_cast<const char*>(digest.data()), digest.size()};
  } else if (event.payload_hash.size() != digest.size()) {
    return Corrupt(entry.seq, "a payload hash of the wrong size");
  }
  size += event.payload.size() + event.payload_hash.size();

  char* to = Take(size);
  if (to == nullptr) return false;
  const auto keep = [&to](std::string_view& text) {
    // An empty text has no bytes, and its pointer may be null.
    if (!text.empty()) std::memcpy(to, text.data(), text.size());
    text = {to, text.size()};
    to += text.size();
  };
  for (const auto text : kTexts) keep(event.*text);
  keep(event.payload);
  keep(event.payload_hash);
  if (page_.entries.empty()) page_.entries.reserve(kFirstEntries);
  page_.entries.push_back(entry);
  return true;
}

Page PageBuilder::Finish() && {
  page_.entries.shrink_to_fit();
  page_.bytes = allocated_ + page_.entries.capacity() * sizeof(LogEntry);
  return std::move(page_);
}

}  // namespace sealane::sqlite
