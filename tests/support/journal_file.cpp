#include "support/journal_file.hpp"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "support/sqlite_file.hpp"

namespace sealane::testing {

std::map<std::string, std::vector<std::string>> ReadJournal(const std::string& path) {
  std::map<std::string, std::vector<std::string>> values;
  if (!std::filesystem::exists(path)) return values;
  const SqliteHandle handle(path);
  ::sqlite3_busy_timeout(handle.get(), 30'000);
  // The tables come a moment after the file.
  if (handle.TextOrThrow("select count(*) from sqlite_master where name = 'journal_messages'") == "0") return values;
  const std::string all = handle.TextOrThrow(
      "select coalesce(json_group_array(json_array(key, value)), '[]') from "
      "(select key, cast(value as text) as value from journal_messages order by place)");
  for (const nlohmann::json& row : nlohmann::json::parse(all)) values[row[0]].push_back(row[1]);
  return values;
}

}  // namespace sealane::testing
