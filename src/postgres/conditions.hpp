#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "postgres/connection.hpp"

namespace sealane::postgres {

/// What rows must fulfil, for a WHERE. Values are bound, never part of the text.
struct Conditions {
  std::string sql = "true";
  std::vector<TextParameter> parameters = {};

  void Add(std::string_view column, std::string value) {
    parameters.emplace_back(std::move(value));
    sql += fmt::format(" AND {} = ${}", column, parameters.size());
  }
  void AddIf(std::string_view column, const std::optional<std::string>& value) {
    if (value) Add(column, *value);
  }
  /// Binds a value and returns how the statement names it.
  std::string Bind(std::string value) {
    parameters.emplace_back(std::move(value));
    return fmt::format("${}", parameters.size());
  }
};

}  // namespace sealane::postgres
