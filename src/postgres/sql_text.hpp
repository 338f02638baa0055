#pragma once

#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace sealane::postgres {

std::string ReplaceAll(std::string text, std::string_view from, std::string_view to);

/// Numbers as the server writes an array of them: `{1,2,3}`. `field` says which number of an item is meant.
template <class Range, class Field = std::identity>
std::string NumberArray(const Range& items, Field field = {}) {
  std::string list = "{";
  for (const auto& item : items) {
    fmt::format_to(std::back_inserter(list), "{}{}", list.size() > 1 ? "," : "", std::invoke(field, item));
  }
  return list + "}";
}

/// Texts as the server writes an array of them: `{"a","b"}`.
std::string TextArray(std::span<const std::string> texts);

}  // namespace sealane::postgres
