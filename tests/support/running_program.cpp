#include "support/running_program.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "support/eventually.hpp"

namespace sealane::testing {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

RunningProgram::RunningProgram(const std::string& name, const std::vector<std::string>& command,
                               std::map<std::string, std::string> variables, const std::string& folder)
    : path_(folder + "/" + name + ".log"), before_(ReadFile(path_).size()) {
  variables["LOG"] = path_;
  std::vector<std::string> words = {"/bin/sh", "-c", "exec \"$@\" >>\"$LOG\" 2>&1", "sh"};
  words.insert(words.end(), command.begin(), command.end());
  process_ = std::make_unique<ChildProcess>(words, variables, folder);
}

std::string RunningProgram::said() const {
  const std::string all = ReadFile(path_);
  return all.substr(std::min(before_, all.size()));
}

bool RunningProgram::Says(const std::string& text) const {
  return Eventually([&] { return said().find(text) != std::string::npos; });
}

int RunningProgram::PortAfter(const std::string& text) const {
  int port = 0;
  EXPECT_TRUE(Eventually([&] {
    const std::string all = said();
    const std::size_t at = all.find(text);
    // The rest of the line may still be on its way.
    if (at == std::string::npos || all.find('\n', at) == std::string::npos) return false;
    port = std::atoi(all.c_str() + at + text.size());
    return true;
  })) << text
      << " is not in: " << said();
  return port;
}

void RunningProgram::Kill() const {
  Signal(SIGKILL);
  Finish();
}

int RunningProgram::Stop() const {
  Signal(SIGTERM);
  return Finish();
}

}  // namespace sealane::testing
