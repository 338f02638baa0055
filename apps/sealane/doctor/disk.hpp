#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sealane/result.hpp"

#include "doctor/finding.hpp"

namespace sealane::cli {

/// Where a SQLite file lies.
struct DiskFacts {
  std::string folder;
  std::uintmax_t free_bytes = 0;  ///< for this user
  std::uintmax_t wal_bytes = 0;   ///< of the log beside the file; 0: there is none
  bool over_network = false;
  std::vector<std::string> open_files = {};  ///< the file and those beside it that other users can read
  std::string open_mode = {};                ///< the mode of the first of them, as chmod takes it
};

/// Looks at the file system below a file, which need not exist yet.
Result<DiskFacts> ReadDisk(const std::string& path);
std::vector<Finding> JudgeDisk(const std::string& subject, const DiskFacts& facts);

}  // namespace sealane::cli
