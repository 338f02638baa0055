// The only file that includes toml++, which takes seconds to compile.
#include "config/toml_file.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <toml++/toml.h>

namespace sealane::cli {
namespace {

// Leaves the type at kOther when an item is no text.
void FillList(const toml::array& array, TomlEntry& entry) {
  for (const toml::node& item : array) {
    const auto* text = item.as_string();
    if (text == nullptr) return;
    entry.items.push_back(text->get());
  }
  entry.type = TomlType::kTexts;
}

TomlEntry Describe(std::string name, const toml::node& node, int line) {
  TomlEntry entry{.name = std::move(name), .type = TomlType::kOther, .text = {}, .line = line};
  if (const auto* text = node.as_string()) {
    entry.type = TomlType::kText;
    entry.text = text->get();
  } else if (const auto* number = node.as_integer()) {
    entry.type = TomlType::kInteger;
    entry.text = fmt::format("{}", number->get());
  } else if (const auto* decimal = node.as_floating_point()) {
    entry.type = TomlType::kDecimal;
    entry.text = fmt::format("{}", decimal->get());
  } else if (const auto* truth = node.as_boolean()) {
    entry.type = TomlType::kTruth;
    entry.text = truth->get() ? "true" : "false";
  } else if (const auto* array = node.as_array()) {
    FillList(*array, entry);
  } else if (node.is_table()) {
    entry.type = TomlType::kEmptyTable;
  }
  return entry;
}

void Flatten(const toml::table& table, const std::string& prefix, std::vector<TomlEntry>& entries) {
  for (auto&& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    const auto line = static_cast<int>(key.source().begin.line);
    const auto* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      Flatten(*inner, name + ".", entries);
    } else {
      entries.push_back(Describe(name, node, line));
    }
  }
}

}  // namespace

Result<std::vector<TomlEntry>> ParseToml(std::string_view text) {
  // toml++ reports malformed files by exception; it ends here.
  try {
    std::vector<TomlEntry> entries;
    Flatten(toml::parse(text), "", entries);
    std::stable_sort(entries.begin(), entries.end(),
                     [](const TomlEntry& a, const TomlEntry& b) { return a.line < b.line; });
    return entries;
  } catch (const toml::parse_error& error) {
    return Error(ErrorKind::kMisconfigured, "bad_configuration", std::string(error.description()))
        .WithContext(fmt::format("{}", error.source().begin.line));
  }
}

}  // namespace sealane::cli
