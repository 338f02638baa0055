#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/keys.hpp"

namespace sealane::cli {

/// What a dotted name of the file means.
struct KeyPlace {
  const KeySpec* spec = nullptr;  ///< null for a key of a free table, or for a section alone
  const FreeTable* table = nullptr;
  Section section = Section::kProgram;
  std::string name;      ///< of the section: `eu` of `stores.eu.url`; empty: the only or default one
  std::string property;  ///< of a free table
};

/// Finds out where `store.url`, `stores.eu.url`, `route.main.order` or `broker.kafka.acks` belong; empty: nowhere.
std::optional<KeyPlace> LocateKey(std::string_view dotted);
/// The same for a section or free table that is named without a key in it: `route.audit`.
std::optional<KeyPlace> LocateSection(std::string_view dotted);

/// The full name of a key in a section: `stores.eu.url`; for the default section `store.url`. Routes, targets and
/// receivers have no default section: without a name it is `route.NAME.order`, as documents write it.
std::string FullName(std::string_view key_name, Section section, std::string_view name);

/// What `dotted` could have been meant to be: every key, with the section that `dotted` names.
std::vector<std::string> NeighboursOf(std::string_view dotted);

/// The dotted name that an environment variable stands for; empty when it can be none. Properties of free tables are
/// spelled with `_` for what a variable cannot contain.
std::string DottedName(std::string_view variable);

}  // namespace sealane::cli
