#include "support/running_demo.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>

namespace sealane::testing {
namespace fs = std::filesystem;

std::string DemoPlace::Find(const std::string& name) const {
  std::error_code ignored;
  for (const auto& folder : fs::directory_iterator(temporary(), ignored)) {
    const fs::path path = folder.path() / name;
    if (fs::exists(path, ignored)) return path.string();
  }
  return {};
}

bool DemoPlace::IsEmpty() const {
  return fs::is_empty(temporary());
}

std::vector<int> DemoPlace::Processes() const {
  std::vector<int> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    int pid = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (failure != std::errc{} || end != name.data() + name.size()) continue;
    std::ifstream file(entry.path() / "cmdline");
    std::string words;
    std::getline(file, words, '\n');  // as a stream: a process that ends meanwhile is a failed read, not an exception
    if (words.find(temporary()) != std::string::npos) found.push_back(pid);
  }
  return found;
}

CommandResult DemoPlace::Run(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), "demo");
  return RunSealane(arguments, {}, variables());
}

}  // namespace sealane::testing
