#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/result.hpp"

#include "base/log.hpp"
#include "config/keys.hpp"

namespace sealane::cli {

/// Where a value came from: `default`, `sealane.toml:3`, `SEALANE_STORE__URL` or `--store`.
struct Setting {
  std::string written;  ///< as given, with ${file:...} unread; what may be shown goes through ShownValue()
  std::string value;    ///< canonical, ready to use; empty: not set
  std::string origin = "default";
};

/// A setting given on the command line.
struct FlagValue {
  Key key;
  std::string flag;  ///< `--store`
  std::string text;
};

struct ConfigSources {
  std::optional<std::string> file;               ///< --config: must exist
  std::map<std::string, std::string> variables;  ///< the environment
  std::vector<std::string>
      candidates;  ///< looked for in this order when neither --config nor SEALANE_CONFIG is given
  std::vector<FlagValue> flags;
};

/// The settings in force: flag before environment before file before default.
class Config {
 public:
  const Setting& Of(Key key) const { return settings_.at(static_cast<std::size_t>(key)); }
  /// Empty when not set.
  const std::string& Text(Key key) const { return Of(key).value; }
  std::chrono::milliseconds Duration(Key key) const;
  std::uint64_t Size(Key key) const;
  bool Truth(Key key) const { return Text(key) == "true"; }

  /// The content of store.password_file.
  const Secret& password() const { return password_; }
  /// The file that was read; empty when there was none.
  const std::string& file() const { return file_; }
  /// What works but should be changed.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class ConfigLoader;
  std::vector<Setting> settings_;
  Secret password_;
  std::string file_;
  std::vector<std::string> warnings_;
};

/// Reads and checks everything. Problems are reported together: kMisconfigured (`bad_configuration`) whose context
/// holds one `place: message (hint)` each; a bad flag value alone is `bad_usage`.
///
/// Values may contain ${file:/path}, which stands for the content of that file without its last line break. Inside a
/// store URL the content is percent-encoded, so that any password fits.
Result<Config> LoadConfig(const ConfigSources& sources);

/// `key = value` lines in TOML, secrets hidden; with `origins` each line says where the value came from.
std::string PrintConfig(const Config& config, bool origins);
/// docs/configuration.md, made from the table of keys.
std::string ConfigurationDocument();

}  // namespace sealane::cli
