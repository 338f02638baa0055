#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "postgres/append_call.hpp"
#include "postgres/binary_format.hpp"
#include "postgres/connection.hpp"

namespace sealane::postgres {

/// A call of one of our functions with parameters in binary form, put together argument by argument.
class Call {
 public:
  /// `select * from schema.function(...)`; `quoted_schema` is checked.
  Call(std::string_view quoted_schema, std::string_view function);
  /// A statement without parameters.
  explicit Call(std::string sql) : sql_(std::move(sql)) {}
  /// A statement with its placeholders, and what goes there.
  Call(std::string sql, std::span<const Oid> types, BinaryCall parameters);

  Call& Text(std::optional<std::string_view> value) { return Scalar(kText, value); }
  Call& Bytes(std::optional<std::string_view> value) { return Scalar(kBytea, value); }
  Call& Int4(std::optional<std::int32_t> value);
  Call& Int8(std::optional<std::int64_t> value);
  Call& Bool(bool value);
  Call& Time(Timestamp value);
  Call& Uuid(const EventId& value) { return Scalar(kUuid, View(value.bytes())); }

  /// A column: one array with what `field` says of every item. Sent as a null when all values are.
  template <class Range, class Field>
  Call& Texts(const Range& items, Field field) {
    return Column(kText, kTexts, items, field, [](std::string_view value) { return value; });
  }
  template <class Range, class Field>
  Call& Byteas(const Range& items, Field field) {
    return Column(kBytea, kByteas, items, field, [](std::string_view value) { return value; });
  }
  template <class Range, class Field>
  Call& Uuids(const Range& items, Field field) {
    return Column(kUuid, kUuids, items, field, [](const EventId& id) { return View(id.bytes()); });
  }
  template <class Range, class Field>
  Call& Int4s(const Range& items, Field field) {
    return Column(kInt4, kInt4s, items, field, [](std::int32_t value) { return BigEndian(value); });
  }
  template <class Range, class Field>
  Call& Int8s(const Range& items, Field field) {
    return Column(kInt8, kInt8s, items, field, [](std::int64_t value) { return BigEndian(value); });
  }
  template <class Range, class Field>
  Call& Times(const Range& items, Field field) {
    return Column(kTimestamptz, kTimestamptzs, items, field, [](Timestamp value) { return BinaryTime(value); });
  }

  /// The statement with its placeholders.
  std::string Sql() const;
  /// Hands the call to libpq without waiting.
  Status Send(PGconn* connection) const;
  /// Runs it alone, in one round trip.
  Result<PgResult> Run(PGconn* connection) const;

  static std::string_view View(std::span<const std::uint8_t> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  struct Pointers {
    std::vector<const char*> values;
    std::vector<int> lengths;
    std::vector<int> formats;
  };

  template <class Value>
  static const Value* Given(const std::optional<Value>& value) {
    return value ? &*value : nullptr;
  }
  template <class Value>
  static const Value* Given(const Value& value) {
    return &value;
  }

  template <class Range, class Field, class Encode>
  Call& Column(Oid element, Oid array, const Range& items, Field field, Encode encode) {
    BinaryArray column(element, items.size());
    for (const auto& item : items) {
      const auto value = field(item);
      if (const auto* given = Given(value)) {
        column.Add(encode(*given));
      } else {
        column.AddNull();
      }
    }
    const bool null = column.only_nulls() && !items.empty();
    return Put(array, null ? std::string() : items.empty() ? EmptyArray(element) : column.bytes(), null);
  }
  Call& Scalar(Oid type, std::optional<std::string_view> value) {
    return Put(type, std::string(value.value_or("")), !value);
  }
  Call& Put(Oid type, std::string bytes, bool null);
  static std::string EmptyArray(Oid element);
  Pointers Point() const;

  std::string sql_;
  bool function_ = false;
  std::vector<Oid> types_;
  std::vector<std::string> buffers_;
  std::vector<bool> nulls_;
};

/// What became of calls that went to the server together.
struct PipelineReport {
  std::vector<PgResult> results = {};  ///< of the calls that worked, in their order
  std::optional<Error> error = {};     ///< of the first that did not; the later ones were not run
  bool refused = false;                ///< the server said so: it is certain that the later ones were not run
  PgResult refusal = {};               ///< and with what
};

/// Runs calls one after the other in one round trip, as separate statements of the open transaction, or of one that
/// the first of them begins.
PipelineReport RunTogether(PGconn* connection, std::span<const Call> calls);

/// Waits for the answers to `sent` statements of a connection in pipeline mode, and leaves that mode. A COPY among
/// them costs the connection.
PipelineReport EndPipeline(PGconn* connection, std::size_t sent);

/// What libpq says about something that it could not even send.
Error SendError(PGconn* connection);

}  // namespace sealane::postgres
