#include "support/sqlite_file.hpp"

#include <atomic>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "sqlite/sqlite_store.hpp"

namespace sealane::testing {

SqliteFile::SqliteFile() {
  static std::atomic<int> counter{0};
  folder_ = fmt::format("{}/test-sqlite/{}-{}", SEALANE_TEST_BUILD_DIR, ::getpid(), ++counter);
  std::filesystem::create_directories(folder_);
  path_ = folder_ + "/store.db";
}

SqliteFile::~SqliteFile() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void SqliteFile::Migrate() const {
  ValueOrThrow(ValueOrThrow(sqlite::OpenMigrator({.path = path_}))->Up());
}

SqliteHandle::SqliteHandle(const std::string& path, int flags) {
  const int opened = sqlite3_open_v2(path.c_str(), &handle_, flags, nullptr);
  EXPECT_EQ(opened, SQLITE_OK) << path << ": " << sqlite3_errstr(opened);
}

SqliteHandle::~SqliteHandle() {
  EXPECT_EQ(sqlite3_close(handle_), SQLITE_OK) << "something still uses the connection";
}

void SqliteHandle::Execute(const std::string& sql) const {
  const int done = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  EXPECT_EQ(done, SQLITE_OK) << sql << ": " << sqlite3_errmsg(handle_);
}

std::string SqliteHandle::ErrorOf(const std::string& sql) const {
  const int done = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  return done == SQLITE_OK ? "" : sqlite3_errmsg(handle_);
}

std::string SqliteHandle::TextOrThrow(const std::string& sql) const {
  sqlite3_stmt* statement = nullptr;
  const bool prepared = sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK;
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owner(statement, &sqlite3_finalize);
  const int stepped = prepared ? sqlite3_step(statement) : SQLITE_ERROR;
  if (stepped == SQLITE_DONE) return "<no row>";
  if (stepped != SQLITE_ROW) {
    throw std::runtime_error(
        fmt::format("{}: {} (sqlite {})", sql, sqlite3_errmsg(handle_), sqlite3_extended_errcode(handle_)));
  }
  const auto* const data = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
  return data == nullptr ? "<null>" : std::string(data, static_cast<std::size_t>(sqlite3_column_bytes(statement, 0)));
}

std::string SqliteHandle::Text(const std::string& sql) const {
  try {
    return TextOrThrow(sql);
  } catch (const std::runtime_error& error) {
    ADD_FAILURE() << error.what();
    return "<error>";
  }
}

std::int64_t SqliteHandle::Number(const std::string& sql) const {
  const std::string text = Text(sql);
  const bool is_number = !text.empty() && text.find_first_not_of("-0123456789") == std::string::npos;
  EXPECT_TRUE(is_number) << sql << " gave " << text;
  return is_number ? std::stoll(text) : -1;
}

}  // namespace sealane::testing
