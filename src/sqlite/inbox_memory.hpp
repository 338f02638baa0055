#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/file_id.hpp"

namespace sealane::sqlite {

/// How far this process has seen the inbox of a consumer in a file. A restore into the open file (`.restore`) leaves
/// the file the same and takes back what was committed: the count of batches is lower than it was.
///
/// Shared by the connections of the process; safe to use from several threads.
class InboxMemory {
 public:
  static std::shared_ptr<InboxMemory> Of(const FileId& file, const std::string& consumer);

  /// How often the file went back so far.
  std::int64_t restores() const;
  /// What the file says now, and how often it had gone back when the caller opened it. False when it went back since.
  bool Saw(std::int64_t writes, std::int64_t restores_then);
  /// So many batches were committed.
  void Wrote(std::int64_t writes);

 private:
  mutable std::mutex mutex_;
  std::int64_t writes_ = 0;  // guarded by mutex_, as is the next
  std::int64_t restores_ = 0;
};

}  // namespace sealane::sqlite
