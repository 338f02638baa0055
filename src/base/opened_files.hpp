#pragma once

#include <string>

namespace sealane {

/// What became of a SQLite file since this process opened it last.
struct FileChange {
  bool replaced = false;  ///< another file is behind the path now
  /// The write-ahead log of the old file lies beside the new one. SQLite ties a log to a file by its name alone: it
  /// would read it into the new file and leave a mixture of both.
  bool foreign_log = false;
};
/// To be asked before the file is opened. Nothing has changed about a file that this process never opened.
FileChange ChangeOf(const std::string& path);
/// The file behind the path is open and, with its log, the one to compare with from now on. Both are pinned, so only
/// few of them are remembered.
void NoteOpened(const std::string& path);

}  // namespace sealane
