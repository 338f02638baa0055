#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "demo/board.hpp"
#include "demo/database.hpp"

namespace sealane::demo {

/// A mistake on purpose (Plant::kEffectOutsideTransaction): writes with a connection of its own what handlers give it
/// and commits each statement at once, whatever becomes of the handler's transaction.
class SideWriter {
 public:
  SideWriter(std::unique_ptr<Database> database, FirstFailure& failure);
  /// Writes what is left, then ends.
  ~SideWriter();
  SideWriter(const SideWriter&) = delete;
  SideWriter& operator=(const SideWriter&) = delete;

  /// Thread-safe; does not wait, because in SQLite the handler's own transaction is in the way.
  void Write(std::string sql, std::vector<std::string> values);

 private:
  struct Job {
    std::string sql;
    std::vector<std::string> values;
  };
  void Work();

  std::unique_ptr<Database> database_;
  FirstFailure& failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // guarded by mutex_, as is the next
  bool closing_ = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace sealane::demo
