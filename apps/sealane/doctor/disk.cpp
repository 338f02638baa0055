#include "doctor/disk.hpp"

#include <array>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/vfs.h>

#include "base/text.hpp"

namespace sealane::cli {
namespace {

using enum Finding::Level;

constexpr std::uintmax_t kMiB = std::uintmax_t{1} << 20U;
constexpr std::uintmax_t kNearlyFull = 64 * kMiB;
constexpr std::uintmax_t kScarce = 1024 * kMiB;
constexpr std::uintmax_t kLargeWal = 256 * kMiB;

// NFS, SMB, SMB2 and CIFS, as statfs() names them. Its type differs between machines, hence the cast.
bool IsOverNetwork(const std::string& folder) {
  constexpr std::array<std::uint32_t, 4> kNetwork = {0x6969, 0x517B, 0xFE534D42, 0xFF534D42};
  struct statfs facts {};
  if (::statfs(folder.c_str(), &facts) != 0) return false;
  const auto type = static_cast<std::uint32_t>(facts.f_type);
  for (const std::uint32_t network : kNetwork) {
    if (type == network) return true;
  }
  return false;
}

// Whether users other than the owner and the group come as far as this folder.
bool IsOpenFolder(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code failure;
  for (fs::path part = folder;; part = part.parent_path()) {
    const fs::perms mode = fs::status(part, failure).permissions();
    if (!failure && (mode & fs::perms::others_exec) == fs::perms::none) return false;
    if (part == part.parent_path()) return true;
  }
}

void FindOpenFiles(const std::string& path, DiskFacts& facts) {
  namespace fs = std::filesystem;
  if (!IsOpenFolder(facts.folder)) return;
  for (const char* const suffix : {"", "-wal", "-shm"}) {
    std::error_code failure;
    const fs::file_status status = fs::status(path + suffix, failure);
    if (failure || !fs::exists(status)) continue;
    if ((status.permissions() & fs::perms::others_read) == fs::perms::none) continue;
    if (facts.open_files.empty())
      facts.open_mode = fmt::format("{:04o}", static_cast<unsigned>(status.permissions()));
    facts.open_files.push_back(path + suffix);
  }
}

std::string Shown(std::uintmax_t bytes) {
  return bytes >= 1024 * kMiB
             ? fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(1024 * kMiB))
             : fmt::format("{} MiB", bytes / kMiB);
}

}  // namespace

Result<DiskFacts> ReadDisk(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failure;
  fs::path folder = fs::absolute(path, failure).lexically_normal().parent_path();
  if (failure) folder = ".";
  DiskFacts facts;
  facts.folder = folder.string();
  facts.free_bytes = fs::space(folder, failure).available;
  if (failure) {
    return Error(ErrorKind::kMisconfigured, "folder_unreadable",
                 fmt::format("cannot look at {}: {}", EscapeForTerminal(facts.folder), failure.message()))
        .WithHint("does the folder exist?");
  }
  facts.over_network = IsOverNetwork(facts.folder);
  const std::uintmax_t wal = fs::file_size(path + "-wal", failure);
  facts.wal_bytes = failure ? 0 : wal;
  FindOpenFiles(path, facts);
  return facts;
}

std::vector<Finding> JudgeDisk(const std::string& subject, const DiskFacts& facts) {
  std::vector<Finding> findings;
  const std::string evidence = fmt::format("{} free in {}", Shown(facts.free_bytes), facts.folder);
  if (facts.free_bytes < kNearlyFull) {
    findings.push_back({kWrong, "disk_nearly_full", subject, "the disk is nearly full; soon nothing can be written",
                        evidence, fmt::format("make room: df -h {}", facts.folder)});
  } else if (facts.free_bytes < kScarce) {
    findings.push_back({kNotice, "disk_space_scarce", subject, "there is little room on the disk", evidence,
                        fmt::format("make room: df -h {}", facts.folder)});
  } else {
    findings.push_back({kGood, "disk", subject, "there is room on the disk", evidence, {}});
  }
  if (facts.over_network) {
    findings.push_back({kWrong, "network_file_system", subject,
                        "the file lies on a network file system, where SQLite can lose or damage it", facts.folder,
                        "move it to a disk of this machine, or use PostgreSQL"});
  }
  if (!facts.open_files.empty()) {
    findings.push_back({kNotice, "file_readable_by_others", subject,
                        "every user of this machine can read the events and their payloads",
                        fmt::format("{} has mode {}", facts.open_files.front(), facts.open_mode),
                        fmt::format("chmod o= {}", fmt::join(facts.open_files, " "))});
  }
  if (facts.wal_bytes > kLargeWal) {
    findings.push_back({kNotice, "wal_large", subject,
                        "a reader that does not end keeps the write-ahead log from shrinking",
                        fmt::format("it has {}", Shown(facts.wal_bytes)),
                        "end the program that holds a transaction open on the file (fuser FILE names them)"});
  }
  return findings;
}

}  // namespace sealane::cli
