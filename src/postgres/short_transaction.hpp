#pragma once

#include <libpq-fe.h>

#include "sealane/result.hpp"

namespace sealane::postgres {

/// What became of a change that an operator asked for and that the server, or the way to it, refused: kInDoubt
/// (`commit_in_doubt`) when the connection broke, because it may have happened.
Error ChangeFailed(PGconn* connection, const Error& error);

/// A short transaction of our own. Destroying it unfinished rolls back.
class ShortTransaction {
 public:
  explicit ShortTransaction(PGconn* connection) : connection_(connection) {}
  ~ShortTransaction();
  ShortTransaction(const ShortTransaction&) = delete;
  ShortTransaction& operator=(const ShortTransaction&) = delete;

  Status Begin();
  /// Fails as ChangeFailed() says.
  Status Commit();

 private:
  PGconn* connection_;
  bool open_ = false;
};

}  // namespace sealane::postgres
