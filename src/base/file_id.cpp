#include "base/file_id.hpp"

#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sealane {

std::string AbsolutePath(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
  return failed ? path : absolute.string();
}

std::optional<FileId> FileId::At(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return FileId{.device = found.st_dev, .number = found.st_ino};
}

std::shared_ptr<const FilePin> FilePin::Of(const std::string& path) {
  // O_PATH names the file and nothing else: no lock is touched when it is closed.
  const int descriptor = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  struct stat found {};
  if (::fstat(descriptor, &found) != 0) {
    ::close(descriptor);
    return nullptr;
  }
  return std::shared_ptr<const FilePin>(
      new FilePin(descriptor, FileId{.device = found.st_dev, .number = found.st_ino}));
}

FilePin::~FilePin() {
  ::close(descriptor_);
}

}  // namespace sealane
