#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sealane/result.hpp"

#include "config/keys.hpp"

namespace sealane::cli {

/// What a value of this key may look like, for people: `duration`, `true or false`, ...
std::string DescribeType(const KeySpec& spec);

/// Checks a value given as text and returns its canonical spelling. Errors are kMisconfigured with a hint; they never
/// repeat a value that may hold a secret.
Result<std::string> CheckValue(const KeySpec& spec, std::string_view text);

/// The value as it may be shown anywhere.
std::string ShownValue(const KeySpec& spec, std::string_view text);

/// Whether a value of this type may carry a login.
bool IsUrl(KeyType type);
/// Whether a value of this type stands in the file without quotes.
bool IsBare(KeyType type);
bool IsList(KeyType type);
/// The items of a list in its canonical spelling.
std::vector<std::string> ListItems(std::string_view canonical);

/// Names of sections: lower-case letters, digits, `_` and `-`, beginning with a letter, at most 40.
Status CheckSectionName(std::string_view name);

}  // namespace sealane::cli
