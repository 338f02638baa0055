#pragma once

#include <sqlite3.h>

#include "sealane/result.hpp"

namespace sealane::sqlite {

/// After a commit: kInDoubt (`file_replaced`) when the file was removed or replaced meanwhile, because then only the
/// file that is there now can tell whether it has what was committed.
Status CommittedIn(sqlite3* connection);

/// A short transaction of our own that writes. Holds the file's one write lock from Begin() on, so it must not wait
/// for anything. Destroying it unfinished rolls back.
class WriteTransaction {
 public:
  /// Waits for other writers at most as long as the connection's busy timeout: `store_busy` (kConflict).
  /// kUnavailable (`file_replaced`) when the file is no longer the one behind its path.
  static Result<WriteTransaction> Begin(sqlite3* connection);

  WriteTransaction(WriteTransaction&& other) noexcept;
  WriteTransaction& operator=(WriteTransaction&&) = delete;
  ~WriteTransaction();

  /// kInDoubt (`commit_in_doubt`) when only the wait for the disk failed, and as CommittedIn(). kUnavailable
  /// (`file_replaced`) when the file was replaced before: nothing was written.
  Status Commit();

 private:
  explicit WriteTransaction(sqlite3* connection) : connection_(connection) {}

  sqlite3* connection_;  // null when there is nothing to roll back
};

}  // namespace sealane::sqlite
