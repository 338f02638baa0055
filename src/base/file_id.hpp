#pragma once

#include <memory>
#include <optional>
#include <string>

#include <sys/types.h>

namespace sealane {

/// Names the same file also after the process changed its directory. Links stay: where they lead to may change.
std::string AbsolutePath(const std::string& path);

/// Which file a path names: two paths, or one path at two moments, name the same file when these are equal. A number
/// is given to another file once the first is gone, so compare only files that are open or pinned.
struct FileId {
  dev_t device = 0;
  ino_t number = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
  /// Empty when nothing is there, or this user may not look.
  static std::optional<FileId> At(const std::string& path);
};

/// While it lives, no other file gets the number of this one, even when it is deleted and closed everywhere. Does not
/// open the file: closing a descriptor would release the locks that SQLite has on it in this process. A deleted file
/// keeps its space on the disk as long as it is pinned.
class FilePin {
 public:
  /// Null when nothing is there.
  static std::shared_ptr<const FilePin> Of(const std::string& path);
  ~FilePin();
  FilePin(const FilePin&) = delete;
  FilePin& operator=(const FilePin&) = delete;

  const FileId& id() const { return id_; }

 private:
  FilePin(int descriptor, FileId id) : descriptor_(descriptor), id_(id) {}

  const int descriptor_;
  const FileId id_;
};

}  // namespace sealane
