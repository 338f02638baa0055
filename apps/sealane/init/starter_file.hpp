#pragma once

#include <string>
#include <string_view>

namespace sealane::cli {

/// What a new configuration begins with.
struct Starter {
  std::string store_url = "sqlite:./sealane.db";
  std::string broker_url = "journal:./journal.db";
  std::string schema = {};  ///< empty: the default
};

/// A sealane.toml to begin with: the two URLs, and every other key that most people may want to change, commented out
/// with its default. A line that begins with `#` and a letter or quote is a setting; each may be uncommented by
/// itself.
std::string StarterFile(const Starter& starter);

/// The lines that append an event in a transaction of this kind of store, in C++ and in SQL.
std::string StarterCode(const Starter& starter);

}  // namespace sealane::cli
