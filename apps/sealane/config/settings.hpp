#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "config/keys.hpp"

namespace sealane::cli {

/// Where a value came from: `default`, `sealane.toml:3`, `SEALANE_STORE__URL` or `--store`.
struct Setting {
  std::string written;  ///< as given, with ${file:...} unread; what may be shown goes through ShownValue()
  std::string value;    ///< canonical, ready to use; empty: not set
  std::string origin = "default";
};

/// The values of all keys for one section: the program with its default store and broker, one named store, one named
/// broker or one route. Keys that the section does not have are at their defaults.
class Settings {
 public:
  Settings();

  const Setting& Of(Key key) const { return settings_.at(static_cast<std::size_t>(key)); }
  /// Empty when not set.
  const std::string& Text(Key key) const { return Of(key).value; }
  bool Has(Key key) const { return !Text(key).empty(); }
  std::chrono::milliseconds Duration(Key key) const;
  std::uint64_t Size(Key key) const;
  std::int64_t Integer(Key key) const;
  double Decimal(Key key) const;
  bool Truth(Key key) const { return Text(key) == "true"; }
  std::vector<std::string> List(Key key) const;
  /// The properties of a free table, by name.
  const std::map<std::string, Setting>& Table(std::string_view name) const;

  /// The content of store.password_file.
  const Secret& password() const { return password_; }

  Setting& At(Key key) { return settings_.at(static_cast<std::size_t>(key)); }
  Setting& PropertyAt(std::string_view table, const std::string& name) { return tables_[std::string(table)][name]; }
  void SetPassword(Secret password) { password_ = std::move(password); }

 private:
  std::vector<Setting> settings_;
  std::map<std::string, std::map<std::string, Setting>> tables_;
  Secret password_;
};

/// The value of a property of a free table as it may be shown: `***` when its name tells that it is a secret.
std::string ShownProperty(std::string_view table, std::string_view name, std::string_view value);

}  // namespace sealane::cli
