#pragma once

#include <map>
#include <string>
#include <vector>

namespace sealane::testing {

/// The values in a journal by key, in the order of their offsets. A file that is not there yet, or has no tables yet,
/// is an empty journal. The relay may write at the same time. std::runtime_error when it cannot be read, as may be
/// for a moment while somebody puts another file in its place.
std::map<std::string, std::vector<std::string>> ReadJournal(const std::string& path);

}  // namespace sealane::testing
