#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "sealane/result.hpp"

#include "base/file_id.hpp"

namespace sealane::sqlite {

/// What one relay knows about the outbox file of one route, beside what the file says: which outbox it is, in which
/// file its lease was granted, and how far that file had come. A file that was replaced or restored contradicts it.
///
/// Shared by the connections of the relay and kept while they are closed and opened again. Safe to use from several
/// threads.
class LeaseMemory {
 public:
  static std::shared_ptr<LeaseMemory> Of(const std::string& path, const std::string& route, const std::string& owner);
  /// The relay ends: a later one of this name begins anew.
  static void Forget(const std::string& path, const std::string& route, const std::string& owner);

  /// The first birth is remembered; kMisconfigured (`another_outbox`) when a later one differs.
  Status Recognise(const std::string& birth, const std::string& path);

  /// No epoch up to this one is granted again, whatever a restored file says.
  std::int64_t highest_epoch() const;
  void Granted(std::int64_t epoch, std::int64_t writes, std::shared_ptr<const FilePin> file);
  /// A write under the lease was committed.
  void Wrote(std::int64_t epoch, std::int64_t writes);
  /// Whether the row of the lease in this file is what this relay left there, or newer.
  bool Trusts(std::int64_t epoch, std::int64_t writes, const FilePin& file) const;
  /// Whether positions in memory are about this file.
  bool Covers(const FilePin& file) const;
  /// False when the log of this file was longer before.
  bool SawSeq(std::int64_t seq, const FilePin& file);
  /// The file contradicts the memory: what was granted counts no longer.
  void Lose();

 private:
  mutable std::mutex mutex_;  // guards everything below
  std::string birth_;
  std::int64_t highest_epoch_ = 0;
  std::int64_t epoch_ = 0;
  std::int64_t writes_ = 0;
  std::shared_ptr<const FilePin> file_;  // of the lease; null: there is none
  bool lost_ = false;
  FileId seen_file_;
  std::int64_t seen_seq_ = 0;
};

}  // namespace sealane::sqlite
