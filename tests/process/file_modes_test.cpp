// Protects payloads in files from other users of the machine: what `sealane` makes is for its owner alone, whatever
// the umask, and `doctor` tells of files that were made before or by others.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/running_relay.hpp"

namespace sealane::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

unsigned ModeOf(const std::string& path) {
  struct stat facts {};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0) << path;
  return facts.st_mode & 07777U;
}

class FileModes : public ::testing::Test {
 protected:
  void SetUp() override {
    // Other users can come as far as the files, which is not certain below the build's folder, and a careless umask
    // takes nothing away.
    std::string name = "/tmp/sealane-modes.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
    umask_ = ::umask(0);
  }
  void TearDown() override {
    ::umask(umask_);
    fs::remove_all(folder_);
  }

  std::string store() const { return folder_ + "/store.db"; }
  std::string journal() const { return folder_ + "/journal.db"; }
  void Sealane(std::vector<std::string> words) const {
    words.insert(words.end(), {"--store", "sqlite:" + store()});
    const CommandResult result = RunSealane(words, {}, {}, folder_);
    EXPECT_EQ(result.code, 0) << result.err;
  }
  void Emit() const { Sealane({"emit", "--topic", "orders", "--key", "o-1", "--type", "T", "--payload", "{}"}); }
  /// The findings about files that are open to others, as `subject: next`.
  std::vector<std::string> Findings() const {
    const CommandResult result =
        RunSealane({"doctor", "--store", "sqlite:" + store(), "--broker", "journal:" + journal(), "-o", "json"});
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    std::vector<std::string> found;
    const json document = json::parse(result.out);
    for (const json& finding : document.at("findings")) {
      if (finding["code"] != "file_readable_by_others") continue;
      EXPECT_EQ(finding["level"], "notice");
      found.push_back(finding["subject"].get<std::string>() + ": " + finding["next"].get<std::string>());
    }
    return found;
  }

  std::string folder_;
  mode_t umask_ = 0;
};

TEST_F(FileModes, WhatIsMadeIsForItsOwnerAlone) {
  Sealane({"migrate", "up"});
  EXPECT_EQ(ModeOf(store()), 0600U);
  Emit();
  // While a relay runs, the logs beside both files are there.
  const RunningRelay relay(folder_, {"--store", "sqlite:" + store(), "--broker", "journal:" + journal()});
  ASSERT_TRUE(Eventually([&] { return fs::exists(journal() + "-shm") && fs::exists(store() + "-shm"); }))
      << relay.log();
  for (const std::string& file : {store(), journal()}) {
    for (const char* const suffix : {"", "-wal", "-shm"}) EXPECT_EQ(ModeOf(file + suffix), 0600U) << file << suffix;
  }
  EXPECT_EQ(Findings(), std::vector<std::string>());
  EXPECT_EQ(relay.Stop().code, 0);
}

TEST_F(FileModes, AFileBehindALinkIsMadeForItsOwnerToo) {
  fs::create_symlink("elsewhere.db", store());
  Sealane({"migrate", "up"});
  EXPECT_EQ(ModeOf(folder_ + "/elsewhere.db"), 0600U);
}

TEST_F(FileModes, TheModeOfAFileThatIsThereStaysAndDoctorTells) {
  for (const std::string& file : {store(), journal()}) std::ofstream{file};
  ASSERT_EQ(::chmod(store().c_str(), 0664), 0);
  ASSERT_EQ(::chmod(journal().c_str(), 0644), 0);
  Sealane({"migrate", "up"});
  Emit();
  Sealane({"relay", "--broker", "journal:" + journal(), "--until", "drained", "--timeout", "60s"});
  EXPECT_EQ(ModeOf(store()), 0664U);
  EXPECT_EQ(ModeOf(journal()), 0644U);
  EXPECT_EQ(Findings(), (std::vector<std::string>{"store default: chmod o= " + store(),
                                                  "broker default: chmod o= " + journal()}));
  ASSERT_EQ(::chmod(folder_.c_str(), 0700), 0);
  EXPECT_EQ(Findings(), std::vector<std::string>()) << "other users do not come as far";
}

}  // namespace
}  // namespace sealane::testing
