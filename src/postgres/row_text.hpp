#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "postgres/connection.hpp"

namespace sealane::postgres {

/// A time as TimeAt() reads it.
std::string Micros(std::string_view column);

std::string Text(const PgResult& result, int row, int column);
std::optional<std::int64_t> OptionalInt(const PgResult& result, int row, int column);
std::optional<Timestamp> OptionalTime(const PgResult& result, int row, int column);
bool IsTrue(const PgResult& result, int row, int column);

/// Reads the fields of a row from left to right.
class FieldReader {
 public:
  FieldReader(const PgResult& result, int row) : result_(result), row_(row) {}

  std::string Text() { return postgres::Text(result_, row_, at_++); }
  std::string Bytes() { return BytesAt(result_, row_, at_++); }  ///< empty for null
  std::int64_t Int() { return IntAt(result_, row_, at_++); }
  bool Truth() { return IsTrue(result_, row_, at_++); }
  Timestamp Time() { return TimeAt(result_, row_, at_++); }
  std::optional<std::int64_t> OptionalInt() { return postgres::OptionalInt(result_, row_, at_++); }
  std::optional<Timestamp> OptionalTime() { return postgres::OptionalTime(result_, row_, at_++); }

 private:
  const PgResult& result_;
  int row_;
  int at_ = 0;
};

}  // namespace sealane::postgres
