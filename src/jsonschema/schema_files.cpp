#include "jsonschema/schema_files.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include <fmt/format.h>

namespace sealane {
namespace {

Error Unreadable(std::string message, std::string hint) {
  return Error(ErrorKind::kMisconfigured, "schemas_unreadable", std::move(message)).WithHint(std::move(hint));
}

// `OrderPlaced.v1` is type OrderPlaced, version 1. The type may contain dots.
std::optional<SchemaFile> FromStem(std::string_view stem) {
  const std::size_t at = stem.rfind(".v");
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const std::string_view digits = stem.substr(at + 2);
  SchemaFile file{.path = {}, .type = std::string(stem.substr(0, at)), .text = {}};
  const auto [rest, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), file.version);
  const bool whole = failure == std::errc{} && rest == digits.data() + digits.size();
  if (!whole || file.version < 1) return std::nullopt;
  return file;
}

Result<SchemaFile> ReadSchemaFile(const std::filesystem::path& path) {
  auto file = FromStem(path.stem().string());
  if (!file) {
    return Unreadable(fmt::format("{} is not named TYPE.vVERSION.json", path.string()),
                      "name it like OrderPlaced.v1.json, or move it elsewhere");
  }
  std::ifstream stream(path, std::ios::binary);
  file->path = path.string();
  file->text.assign(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  if (!stream) return Unreadable(fmt::format("cannot read {}", path.string()), "may this user read it?");
  return *std::move(file);
}

}  // namespace

Result<std::vector<SchemaFile>> ReadSchemaFiles(const std::string& folder) {
  std::error_code failure;
  std::vector<std::filesystem::path> paths;
  std::filesystem::directory_iterator entry(folder, failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    if (entry->path().extension() == ".json") paths.push_back(entry->path());
  }
  if (failure) {
    return Unreadable(fmt::format("cannot read the folder {}: {}", folder, failure.message()), "is the path right?");
  }
  std::sort(paths.begin(), paths.end());
  std::vector<SchemaFile> files;
  for (const std::filesystem::path& path : paths) {
    SEALANE_ASSIGN_OR_RETURN(SchemaFile file, ReadSchemaFile(path));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace sealane
