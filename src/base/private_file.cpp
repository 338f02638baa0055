#include "base/private_file.hpp"

#include <filesystem>
#include <system_error>

#include <sys/stat.h>

namespace sealane {

void MakePrivateFile(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kLinksMax = 16;
  std::error_code failure;
  fs::path file = path;
  for (int links = 0; links < kLinksMax && fs::is_symlink(file, failure); ++links) {
    file = file.parent_path() / fs::read_symlink(file, failure);
  }
  // Not open(): closing a descriptor of the file would release the locks that SQLite holds on it in another thread.
  (void)::mknod(file.c_str(), S_IFREG | S_IRUSR | S_IWUSR, 0);
}

}  // namespace sealane
