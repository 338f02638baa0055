#pragma once

#include <map>
#include <string>

namespace sealane::cli {

/// Of this program (`version`) and of the libraries it runs with, by name.
std::map<std::string, std::string> LibraryVersions();

}  // namespace sealane::cli
