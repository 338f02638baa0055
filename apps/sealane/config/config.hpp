#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/result.hpp"

#include "config/settings.hpp"

namespace sealane::cli {

/// The store and the broker that have no name of their own: [store] and [broker].
inline constexpr std::string_view kDefaultName = "default";
/// The route there is when none is configured.
inline constexpr std::string_view kDefaultRoute = "main";

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
  using Sections = std::map<std::string, Settings>;

  /// Everything that stands once, with the default store and broker.
  const Settings& program() const { return program_; }
  const Setting& Of(Key key) const { return program_.Of(key); }
  const std::string& Text(Key key) const { return program_.Text(key); }
  std::chrono::milliseconds Duration(Key key) const { return program_.Duration(key); }
  std::uint64_t Size(Key key) const { return program_.Size(key); }
  bool Truth(Key key) const { return program_.Truth(key); }

  /// Null when there is none of that name; `default` is [store].
  const Settings* FindStore(std::string_view name) const;
  const Settings* FindBroker(std::string_view name) const;
  /// Those with a name of their own.
  const Sections& named_stores() const { return stores_; }
  const Sections& named_brokers() const { return brokers_; }
  /// Never empty.
  const Sections& routes() const { return routes_; }

  /// Where tasks are carried out, by the name that tasks have for it.
  const Sections& targets() const { return targets_; }
  /// Whose webhooks are taken.
  const Sections& receivers() const { return receivers_; }

  /// The store that a command works on: the one --store names, else the default one.
  const std::string& store_name() const { return store_name_; }
  const Settings& store() const { return *FindStore(store_name_); }

  /// The file that was read; empty when there was none.
  const std::string& file() const { return file_; }
  /// What works but should be changed.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class ConfigLoader;
  Settings program_;
  Sections stores_;
  Sections brokers_;
  Sections routes_;
  Sections targets_;
  Sections receivers_;
  std::string store_name_{kDefaultName};
  std::string file_;
  std::vector<std::string> warnings_;
};

/// Reads and checks everything. Problems are reported together: kMisconfigured (`bad_configuration`) whose context
/// holds one `place: message (hint)` each; a bad flag value alone is `bad_usage`.
///
/// Values may contain ${file:/path}, which stands for the content of that file without its last line break. Inside a
/// URL the content is percent-encoded, so that any password fits.
Result<Config> LoadConfig(const ConfigSources& sources);

/// One line of what is in force.
struct ShownSetting {
  std::string key;
  std::string value;  ///< secrets hidden; empty: not set
  KeyType type = KeyType::kText;
  std::string origin;
};
std::vector<ShownSetting> ShownSettings(const Config& config);

/// `key = value` lines in TOML, secrets hidden; with `origins` each line says where the value came from.
std::string PrintConfig(const Config& config, bool origins);
/// docs/configuration.md, made from the table of keys.
std::string ConfigurationDocument();

}  // namespace sealane::cli
