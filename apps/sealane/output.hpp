#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/error.hpp"

#include "core/json_object.hpp"

namespace sealane::cli {

/// Names the shape of every JSON document this program prints; it changes when one of them breaks its readers.
inline constexpr std::string_view kApiVersion = "sealane/v1";

enum class OutputFormat : std::uint8_t {
  kTable,  ///< for people
  kJson,   ///< one document
  kJsonl,  ///< one document per line and thing
};
std::optional<OutputFormat> ParseOutputFormat(std::string_view text);

/// A JSON object that is written in one expression, with the values that documents of this program are made of.
class JsonDocument {
 public:
  JsonDocument& Text(std::string_view name, std::string_view value);
  /// Leaves the member out when the value is empty.
  JsonDocument& TextIfAny(std::string_view name, std::string_view value);
  JsonDocument& Integer(std::string_view name, std::int64_t value);
  JsonDocument& Truth(std::string_view name, bool value);
  JsonDocument& Time(std::string_view name, Timestamp value);
  JsonDocument& Null(std::string_view name) { return Raw(name, "null"); }
  /// `json` must be one JSON value.
  JsonDocument& Raw(std::string_view name, std::string_view json);
  std::string Finish() { return std::move(object_).Close(); }

 private:
  JsonObject object_;
};
std::string JsonArray(const std::vector<std::string>& items);

/// Columns as wide as their widest cell, without trailing spaces. Cells are made safe for a terminal here.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// With `color` the header is bold.
  std::string Render(bool color) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// A failure as people see it (`sealane: message`, `  hint: ...`) or as one line of JSON.
std::string RenderError(const Error& error, OutputFormat format, bool color);
/// A warning in the same two shapes.
std::string RenderWarning(std::string_view message, OutputFormat format, bool color);

}  // namespace sealane::cli
