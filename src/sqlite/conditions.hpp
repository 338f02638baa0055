#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sqlite/statement.hpp"

namespace sealane::sqlite {

/// What rows must fulfil, to be appended to a WHERE. Values are bound, never part of the text.
class Conditions {
 public:
  void Add(std::string_view condition, std::string value) {
    AddFixed(condition);
    values_.push_back(std::move(value));
  }
  void AddIf(std::string_view condition, const std::optional<std::string>& value) {
    if (value) Add(condition, *value);
  }
  void AddFixed(std::string_view condition) { sql_ += fmt::format(" AND {}", condition); }

  const std::string& sql() const { return sql_; }
  void BindTo(Statement& statement) const {
    for (const std::string& value : values_) statement.Bind(value);
  }

 private:
  std::string sql_;
  std::vector<std::string> values_;
};

}  // namespace sealane::sqlite
