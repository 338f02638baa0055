#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/result.hpp"

namespace sealane::cli {

/// How a value is written in the file.
enum class TomlType : std::uint8_t { kText, kInteger, kDecimal, kTruth, kTexts, kEmptyTable, kOther };

/// One value of a TOML file.
struct TomlEntry {
  std::string name;  ///< `store.url`, however the file nests it
  TomlType type = TomlType::kOther;
  std::string text;                     ///< empty for kOther
  std::vector<std::string> items = {};  ///< of kTexts
  int line = 0;
};

/// All values of a TOML text in the order of their lines; an empty table counts as a value of type kEmptyTable, so
/// that a misspelt section does not go unnoticed. The error's context is the line number alone.
Result<std::vector<TomlEntry>> ParseToml(std::string_view text);

}  // namespace sealane::cli
