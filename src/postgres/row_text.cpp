#include "postgres/row_text.hpp"

#include <fmt/format.h>

namespace sealane::postgres {

std::string Micros(std::string_view column) {
  // In two parts: before PostgreSQL 14 the server extracts a double, which has no room for the microseconds of year
  // 9999.
  return fmt::format(
      "(extract(epoch FROM date_trunc('second', {0}))::int8 * 1000000 + extract(microseconds FROM {0})::int8 % "
      "1000000)",
      column);
}

std::string Text(const PgResult& result, int row, int column) {
  return std::string(TextAt(result, row, column));
}

std::optional<std::int64_t> OptionalInt(const PgResult& result, int row, int column) {
  if (IsNull(result, row, column)) return std::nullopt;
  return IntAt(result, row, column);
}

std::optional<Timestamp> OptionalTime(const PgResult& result, int row, int column) {
  if (IsNull(result, row, column)) return std::nullopt;
  return TimeAt(result, row, column);
}

bool IsTrue(const PgResult& result, int row, int column) {
  return TextAt(result, row, column) == "t";
}

}  // namespace sealane::postgres
