#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sealane/result.hpp"

namespace sealane {

struct SchemaFile {
  std::string path;
  std::string type;
  std::int32_t version = 0;
  std::string text;
};

/// Every `<type>.v<version>.json` of a folder, in the order of their names. kMisconfigured (`schemas_unreadable`)
/// when the folder or a file cannot be read or a *.json is named otherwise.
Result<std::vector<SchemaFile>> ReadSchemaFiles(const std::string& folder);

}  // namespace sealane
