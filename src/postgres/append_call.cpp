#include "postgres/append_call.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "sealane/assert.hpp"

#include "base/hex.hpp"
#include "base/time_text.hpp"
#include "core/headers_json.hpp"
#include "postgres/binary_format.hpp"

namespace sealane::postgres {
namespace {

constexpr std::size_t kFields = 23;
constexpr std::size_t kParameters = kFields + 3;  // with the three arrays for uniqueness
constexpr std::array<Oid, kFields> kTypes = {kUuid, kInt4, kText, kText,        kText,        kText,  kText, kInt4,
                                             kText, kText, kInt8, kText,        kText,        kText,  kText, kText,
                                             kText, kText, kJson, kTimestamptz, kTimestamptz, kBytea, kBytea};
constexpr std::array<Oid, kParameters> kArrayTypes = {
    kUuids, kInt4s,        kTexts,        kTexts,  kTexts,  kTexts, kTexts, kInt4s, kTexts,
    kTexts, kInt8s,        kTexts,        kTexts,  kTexts,  kTexts, kTexts, kTexts, kTexts,
    kJsons, kTimestamptzs, kTimestamptzs, kByteas, kByteas, kInt4s, kTexts, kUuids};

/// Adds one column to a binary call.
class BinaryColumns {
 public:
  explicit BinaryColumns(BinaryCall& call) : call_(call) {}

  void Start(Oid element, std::size_t count) { array_.emplace(element, count); }
  void Null() { array_->AddNull(); }
  void Text(std::string_view value) { array_->Add(value); }
  void Bytes(std::string_view value) { array_->Add(value); }
  void Uuid(std::span<const std::uint8_t> value) {
    array_->Add({reinterpret_cast<const char*>(value.data()), value.size()});
  }
  void Int4(std::int32_t value) { array_->Add(BigEndian(value)); }
  void Int8(std::int64_t value) { array_->Add(BigEndian(value)); }
  void Time(Timestamp value) { array_->Add(BinaryTime(value)); }
  void Finish() {
    call_.nulls.push_back(array_->only_nulls());
    call_.buffers.push_back(array_->only_nulls() ? std::string() : array_->bytes());
    array_.reset();
  }

 private:
  BinaryCall& call_;
  std::optional<BinaryArray> array_;
};

/// Adds the only value of one column to a binary call.
class BinaryScalars {
 public:
  explicit BinaryScalars(BinaryCall& call) : call_(call) {}

  void Start(Oid /*element*/, std::size_t /*count*/) {}
  void Null() { Put(std::string(), true); }
  void Text(std::string_view value) { Put(std::string(value), false); }
  void Bytes(std::string_view value) { Put(std::string(value), false); }
  void Uuid(std::span<const std::uint8_t> value) {
    Put(std::string(reinterpret_cast<const char*>(value.data()), value.size()), false);
  }
  void Int4(std::int32_t value) { Put(BigEndian(value), false); }
  void Int8(std::int64_t value) { Put(BigEndian(value), false); }
  void Time(Timestamp value) { Put(BinaryTime(value), false); }
  void Finish() {}

 private:
  void Put(std::string bytes, bool null) {
    call_.buffers.push_back(std::move(bytes));
    call_.nulls.push_back(null);
  }

  BinaryCall& call_;
};

/// Adds one column to a text call, as an array literal.
class TextColumns {
 public:
  explicit TextColumns(std::vector<std::optional<std::string>>& parameters) : parameters_(parameters) {}

  void Start(Oid /*element*/, std::size_t /*count*/) {
    literal_ = "{";
    only_nulls_ = true;
  }
  void Null() { AddItem("NULL"); }
  void Text(std::string_view value) {
    std::string item = "\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') item.push_back('\\');
      item.push_back(c);
    }
    item.push_back('"');
    AddItem(item);
    only_nulls_ = false;
  }
  void Bytes(std::string_view value) {
    Text("\\x" + ToHex({reinterpret_cast<const std::uint8_t*>(value.data()), value.size()}));
  }
  void Uuid(std::span<const std::uint8_t> value) { Text(ToHex(value)); }
  void Int4(std::int32_t value) { Text(std::to_string(value)); }
  void Int8(std::int64_t value) { Text(std::to_string(value)); }
  void Time(Timestamp value) { Text(ToRfc3339(value)); }
  void Finish() {
    literal_.push_back('}');
    parameters_.push_back(only_nulls_ ? std::nullopt : std::optional(literal_));
  }

 private:
  void AddItem(std::string_view item) {
    if (literal_.size() > 1) literal_.push_back(',');
    literal_ += item;
  }

  std::vector<std::optional<std::string>>& parameters_;
  std::string literal_;
  bool only_nulls_ = true;
};

template <class Columns, class Put>
void Column(Columns& columns, Oid element, std::span<const NewEntry> entries, Put put) {
  columns.Start(element, entries.size());
  for (const NewEntry& entry : entries) put(entry);
  columns.Finish();
}

template <class Columns>
void TextColumn(Columns& columns, std::span<const NewEntry> entries, std::string Envelope::*field) {
  Column(columns, kText, entries, [&](const NewEntry& entry) { columns.Text(entry.envelope.*field); });
}

/// Columns where the table has null for "not given".
template <class Columns>
void OptionalColumn(Columns& columns, std::span<const NewEntry> entries, std::string Envelope::*field) {
  Column(columns, kText, entries, [&](const NewEntry& entry) {
    const std::string& value = entry.envelope.*field;
    value.empty() ? columns.Null() : columns.Text(value);
  });
}

struct Ask {
  std::int32_t entry;
  UniqueKind kind;
  Fingerprint fingerprint;
};

std::vector<Ask> CollectAsks(std::span<const NewEntry> entries) {
  std::vector<Ask> asks;
  std::int32_t place = 0;
  for (const NewEntry& entry : entries) {
    ++place;
    if (entry.own_id) asks.push_back({place, UniqueKind::kEventId, FingerprintOfId(entry.envelope.id)});
    if (entry.unique_version) asks.push_back({place, UniqueKind::kVersion, FingerprintOfVersion(entry.envelope)});
    if (entry.dedup_key) {
      asks.push_back({place, UniqueKind::kDedupKey, FingerprintOfDedupKey(entry.envelope.tenant, *entry.dedup_key)});
    }
  }
  return asks;
}

template <class Columns>
void EncodeAsks(std::span<const NewEntry> entries, Columns& columns) {
  const std::vector<Ask> asks = CollectAsks(entries);
  columns.Start(kInt4, asks.size());
  for (const Ask& ask : asks) columns.Int4(ask.entry);
  columns.Finish();
  columns.Start(kText, asks.size());
  for (const Ask& ask : asks) columns.Text(std::string(1, static_cast<char>(ask.kind)));
  columns.Finish();
  columns.Start(kUuid, asks.size());
  for (const Ask& ask : asks) columns.Uuid(ask.fingerprint);
  columns.Finish();
}

/// The order of columns here is the order of the functions' parameters.
template <class Columns>
void EncodeFields(std::span<const NewEntry> entries, Columns& columns) {
  Column(columns, kUuid, entries, [&](const NewEntry& e) { columns.Uuid(e.envelope.id.bytes()); });
  // The server computes the key's lane: it would not take our word for it, and computing is as cheap as comparing.
  Column(columns, kInt4, entries, [&](const NewEntry&) { columns.Null(); });
  TextColumn(columns, entries, &Envelope::tenant);
  Column(columns, kText, entries, [&](const NewEntry& e) { columns.Text(ToString(e.envelope.kind)); });
  TextColumn(columns, entries, &Envelope::topic);
  TextColumn(columns, entries, &Envelope::key);
  TextColumn(columns, entries, &Envelope::type);
  Column(columns, kInt4, entries, [&](const NewEntry& e) { columns.Int4(e.envelope.schema_version); });
  Column(columns, kText, entries, [&](const NewEntry& e) {
    e.envelope.aggregate.type.empty() ? columns.Null() : columns.Text(e.envelope.aggregate.type);
  });
  Column(columns, kText, entries, [&](const NewEntry& e) {
    e.envelope.aggregate.id.empty() ? columns.Null() : columns.Text(e.envelope.aggregate.id);
  });
  Column(columns, kInt8, entries, [&](const NewEntry& e) {
    e.envelope.aggregate.version ? columns.Int8(*e.envelope.aggregate.version) : columns.Null();
  });
  OptionalColumn(columns, entries, &Envelope::correlation_id);
  OptionalColumn(columns, entries, &Envelope::causation_id);
  OptionalColumn(columns, entries, &Envelope::traceparent);
  OptionalColumn(columns, entries, &Envelope::tracestate);
  OptionalColumn(columns, entries, &Envelope::producer);
  OptionalColumn(columns, entries, &Envelope::schema_id);
  TextColumn(columns, entries, &Envelope::content_type);
  Column(columns, kJson, entries, [&](const NewEntry& e) { columns.Text(HeadersToJson(e.envelope.headers)); });
  Column(columns, kTimestamptz, entries, [&](const NewEntry& e) { columns.Time(e.envelope.occurred_at); });
  Column(columns, kTimestamptz, entries, [&](const NewEntry& e) {
    e.envelope.available_at ? columns.Time(*e.envelope.available_at) : columns.Null();
  });
  Column(columns, kBytea, entries, [&](const NewEntry& e) { columns.Bytes(e.envelope.payload); });
  Column(columns, kBytea, entries, [&](const NewEntry& e) {
    const PayloadHash& hash = e.envelope.payload_hash;
    columns.Bytes({reinterpret_cast<const char*>(hash.data()), hash.size()});
  });
}

template <class Columns>
void EncodeBatch(std::span<const NewEntry> entries, Columns columns) {
  EncodeFields(entries, columns);
  EncodeAsks(entries, columns);
}

std::string Placeholders(std::size_t count) {
  std::string text;
  for (std::size_t i = 1; i <= count; ++i) text += fmt::format("{}${}", i == 1 ? "" : ",", i);
  return text;
}

}  // namespace

BinaryArray::BinaryArray(Oid element, std::size_t count) {
  // Dimensions, "has nulls" flag, element type, length, lower bound.
  bytes_ += BigEndian(std::int32_t{1});
  bytes_ += BigEndian(std::int32_t{0});
  bytes_ += BigEndian(static_cast<std::uint32_t>(element));
  bytes_ += BigEndian(static_cast<std::int32_t>(count));
  bytes_ += BigEndian(std::int32_t{1});
}

void BinaryArray::Add(std::string_view bytes) {
  bytes_ += BigEndian(static_cast<std::int32_t>(bytes.size()));
  bytes_ += bytes;
  only_nulls_ = false;
}

void BinaryArray::AddNull() {
  bytes_[7] = 1;  // the low byte of the "has nulls" flag
  bytes_ += BigEndian(std::int32_t{-1});
}

BinaryCall EncodeAppendBinary(std::span<const NewEntry> entries) {
  BinaryCall call;
  EncodeBatch(entries, BinaryColumns(call));
  SEALANE_ASSERT(call.buffers.size() == kParameters, "every parameter of append_batch is encoded");
  return call;
}

BinaryCall EncodeAppendOne(const NewEntry& entry) {
  SEALANE_ASSERT(!AsksForUniqueness(entry), "uniqueness is checked by append_batch only");
  BinaryCall call;
  BinaryScalars columns(call);
  EncodeFields({&entry, 1}, columns);
  SEALANE_ASSERT(call.buffers.size() == kFields, "every parameter of append_one is encoded");
  return call;
}

bool AsksForUniqueness(const NewEntry& entry) {
  return entry.own_id || entry.unique_version || entry.dedup_key;
}

std::vector<std::optional<std::string>> EncodeAppendText(std::span<const NewEntry> entries) {
  std::vector<std::optional<std::string>> parameters;
  EncodeBatch(entries, TextColumns(parameters));
  SEALANE_ASSERT(parameters.size() == kParameters, "every parameter of append_batch is encoded");
  return parameters;
}

std::string AppendSql(std::string_view schema) {
  return fmt::format("SELECT entry, event_id FROM {}.append_batch({})", schema, Placeholders(kParameters));
}

std::string AppendOneSql(std::string_view schema) {
  return fmt::format("SELECT {}.append_one({})", schema, Placeholders(kFields));
}

std::span<const Oid> AppendTypes() {
  return kArrayTypes;
}

std::span<const Oid> AppendOneTypes() {
  return kTypes;
}

}  // namespace sealane::postgres
