#include "base/opened_files.hpp"

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/file_id.hpp"

namespace sealane {
namespace {

constexpr std::size_t kFilesMax = 256;

struct OpenedFile {
  std::shared_ptr<const FilePin> file;
  std::shared_ptr<const FilePin> log;  // null when it had none
};

struct OpenedFiles {
  std::mutex mutex;
  std::map<std::string, OpenedFile> by_path;  // guarded by mutex
};

OpenedFiles& AllFiles() {
  static OpenedFiles files;
  return files;
}

std::string LogOf(const std::string& path) {
  return path + "-wal";
}

}  // namespace

FileChange ChangeOf(const std::string& path) {
  OpenedFiles& files = AllFiles();
  const std::lock_guard lock(files.mutex);
  const auto known = files.by_path.find(AbsolutePath(path));
  const auto there = FileId::At(path);
  if (known == files.by_path.end() || !there || *there == known->second.file->id()) return {};
  const auto& log = known->second.log;
  std::error_code missing;
  const bool has_old_log = log != nullptr && FileId::At(LogOf(path)) == log->id() &&
                           std::filesystem::file_size(LogOf(path), missing) > 0 && !missing;
  return {.replaced = true, .foreign_log = has_old_log};
}

void NoteOpened(const std::string& path) {
  auto file = FilePin::Of(path);
  if (file == nullptr) return;
  OpenedFile opened{.file = std::move(file), .log = FilePin::Of(LogOf(path))};
  OpenedFiles& files = AllFiles();
  const std::lock_guard lock(files.mutex);
  const std::string place = AbsolutePath(path);
  if (!files.by_path.contains(place) && files.by_path.size() >= kFilesMax) files.by_path.clear();
  files.by_path[place] = std::move(opened);
}

}  // namespace sealane
