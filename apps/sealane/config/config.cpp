#include "config/config.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "config/key_place.hpp"
#include "config/secret_file.hpp"
#include "config/toml_file.hpp"
#include "config/values.hpp"
#include "config/variables.hpp"

namespace sealane::cli {
namespace {

const Settings* FindSection(const Config::Sections& sections, const Settings& program, std::string_view name) {
  if (name == kDefaultName) return &program;
  const auto found = sections.find(std::string(name));
  return found == sections.end() ? nullptr : &found->second;
}

Error Bad(std::string message, std::string hint = {}) {
  return Error(ErrorKind::kMisconfigured, "bad_configuration", std::move(message)).WithHint(std::move(hint));
}

std::string Suggestion(std::string_view name, std::span<const std::string> known, std::string_view otherwise) {
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  const std::string_view meant = ClosestMatch(name, candidates);
  return meant.empty() ? std::string(otherwise) : fmt::format("did you mean `{}`?", meant);
}

Error UnknownName(std::string_view what, std::string_view name, std::span<const std::string> known) {
  return Bad(fmt::format("unknown {} `{}`", what, EscapeForTerminal(name)),
             Suggestion(name, known, "sealane config print shows all keys"));
}

Error NamingKey(const std::string& name, const Error& error) {
  return Bad(fmt::format("{}: {}", name, error.message()), error.hint()).WithField(name);
}

Result<std::string> Checked(const KeySpec& spec, std::string_view written) {
  if (spec.type == KeyType::kTemplate) return CheckValue(spec, written);
  SEALANE_ASSIGN_OR_RETURN(const std::string expanded, ExpandSecrets(written, IsUrl(spec.type)));
  return CheckValue(spec, expanded);
}

// The text of an entry, or why its type does not fit.
Result<std::string> TextOf(const KeySpec& spec, const std::string& name, const TomlEntry& entry) {
  using enum KeyType;
  if (IsList(spec.type)) {
    if (entry.type == TomlType::kText) return entry.text;
    if (entry.type != TomlType::kTexts) {
      return Bad(fmt::format("{} is a {}", name, DescribeType(spec)), fmt::format("write {} = [\"...\"]", name));
    }
    for (const std::string& item : entry.items) {
      if (item.find(',') != std::string::npos) {
        return Bad(fmt::format("{}: an item contains a comma", name), "use * for the part with the comma");
      }
    }
    return fmt::format("{}", fmt::join(entry.items, ","));
  }
  if (spec.type == kTruth) {
    if (entry.type == TomlType::kTruth) return entry.text;
    return Bad(fmt::format("{} is true or false", name), "write it without quotes");
  }
  if (spec.type == kInteger || spec.type == kDecimal) {
    if (entry.type == TomlType::kInteger || entry.type == TomlType::kDecimal) return entry.text;
    return Bad(fmt::format("{} is a {}", name, DescribeType(spec)), "write it without quotes");
  }
  if (entry.type == TomlType::kText) return entry.text;
  const bool measured = spec.type == kDuration || spec.type == kDurationOrNone || spec.type == kSize;
  // A bare number goes on to the check of units, which has the better hint.
  if (measured && entry.type == TomlType::kInteger) return entry.text;
  return Bad(fmt::format("{} is a {} in quotes", name, DescribeType(spec)), fmt::format("write {} = \"...\"", name));
}

}  // namespace

const Settings* Config::FindStore(std::string_view name) const {
  return FindSection(stores_, program_, name);
}
const Settings* Config::FindBroker(std::string_view name) const {
  return FindSection(brokers_, program_, name);
}

/// Collects values from the weakest source to the strongest, and problems from all of them.
class ConfigLoader {
 public:
  explicit ConfigLoader(const ConfigSources& sources) : sources_(sources) {}

  Result<Config> Load() {
    SEALANE_RETURN_IF_ERROR(CheckFlags());
    ApplyFile();
    ApplyVariables();
    SEALANE_RETURN_IF_ERROR(ApplyFlags());
    ReadPassword(Section::kProgram, "", config_.program_);
    for (auto& [name, store] : config_.stores_) ReadPassword(Section::kStore, name, store);
    if (config_.routes_.empty()) config_.routes_.try_emplace(std::string(kDefaultRoute));
    CheckReferences();
    if (!problems_.empty()) return Misconfigured();
    return std::move(config_);
  }

 private:
  void Problem(const std::string& place, const Error& error) {
    std::string text = fmt::format("{}: {}", place, error.message());
    if (!error.hint().empty()) text += fmt::format(" ({})", error.hint());
    problems_.push_back({std::move(text), fmt::format("{}: {}", place, error.message()), error.hint()});
  }

  Error Misconfigured() const {
    if (problems_.size() == 1) {
      return Error(ErrorKind::kMisconfigured, "bad_configuration", problems_[0].message).WithHint(problems_[0].hint);
    }
    Error error(ErrorKind::kMisconfigured, "bad_configuration",
                fmt::format("{} problems in the configuration", problems_.size()));
    for (const auto& problem : problems_) std::move(error).WithContext(problem.whole);
    return error;
  }

  // ---- one value ----

  // The settings that a place belongs to, made when they are new.
  Result<Settings*> SettingsOf(const KeyPlace& place) {
    if (place.name.empty()) return &config_.program_;
    SEALANE_RETURN_IF_ERROR(CheckSectionName(place.name));
    if (place.section == Section::kRoute) return &config_.routes_[place.name];
    if (place.section == Section::kTarget) return &config_.targets_[place.name];
    if (place.section == Section::kReceiver) return &config_.receivers_[place.name];
    const bool store = place.section == Section::kStore;
    if (place.name == kDefaultName) {
      return Bad(fmt::format("the {} named default stands in a section of its own", store ? "store" : "broker"),
                 store ? "write [store]" : "write [broker]");
    }
    return store ? &config_.stores_[place.name] : &config_.brokers_[place.name];
  }

  // Takes a value over, or says what is wrong with it.
  Status Set(const KeyPlace& place, std::string_view written, const std::string& origin) {
    SEALANE_ASSIGN_OR_RETURN(Settings* const settings, SettingsOf(place));
    if (place.table != nullptr) {
      auto expanded = ExpandSecrets(written, false);
      const std::string table = FullName(place.table->name, place.section, place.name);
      if (!expanded) return NamingKey(fmt::format("{}.{}", table, place.property), expanded.error());
      settings->PropertyAt(place.table->name, place.property) = {
          .written = std::string(written), .value = *std::move(expanded), .origin = origin};
      return Ok();
    }
    auto checked = Checked(*place.spec, written);
    if (!checked) return NamingKey(FullName(place.spec->name, place.section, place.name), checked.error());
    settings->At(place.spec->key) = {
        .written = IsList(place.spec->type) ? *checked : std::string(written), .value = *checked, .origin = origin};
    return Ok();
  }

  // ---- the file ----

  void ApplyFile() {
    const auto path = FindFile();
    if (!path) return;
    auto text = ReadSmallFile(*path);
    if (!text) return problems_.push_back({text.error().message(), text.error().message(), text.error().hint()});
    config_.file_ = *path;
    auto entries = ParseToml(*text);
    if (!entries) return Problem(fmt::format("{}:{}", *path, entries.error().context().at(0)), entries.error());
    for (const TomlEntry& entry : *entries) {
      const std::string place = fmt::format("{}:{}", *path, entry.line);
      if (auto applied = ApplyEntry(entry, place); !applied) Problem(place, applied.error());
    }
  }

  std::optional<std::string> FindFile() const {
    if (sources_.file) return sources_.file;
    const auto variable = sources_.variables.find(std::string(kFileVariable));
    if (variable != sources_.variables.end() && !variable->second.empty()) return variable->second;
    for (const std::string& candidate : sources_.candidates) {
      if (FileExists(candidate)) return candidate;
    }
    return std::nullopt;
  }

  Status ApplyEntry(const TomlEntry& entry, const std::string& origin) {
    if (entry.type == TomlType::kEmptyTable) {
      // `[route.audit]` with nothing in it is a route like any other.
      if (const auto section = LocateSection(entry.name)) {
        SEALANE_RETURN_IF_ERROR(SettingsOf(*section));
        return Ok();
      }
    }
    const auto place = LocateKey(entry.name);
    if (!place) return UnknownName("key", entry.name, NeighboursOf(entry.name));
    if (place->table != nullptr) return ApplyProperty(*place, entry, origin);
    SEALANE_ASSIGN_OR_RETURN(const std::string text, TextOf(*place->spec, entry.name, entry));
    if (text.empty() && IsList(place->spec->type)) return Ok();
    SEALANE_RETURN_IF_ERROR(Set(*place, text, origin));
    WarnOfLiteral(entry.name, text, ShownValue(*place->spec, text), origin);
    return Ok();
  }

  Status ApplyProperty(const KeyPlace& place, const TomlEntry& entry, const std::string& origin) {
    if (entry.type == TomlType::kTexts || entry.type == TomlType::kEmptyTable || entry.type == TomlType::kOther) {
      return Bad(fmt::format("{} is a text, a number or a truth", entry.name),
                 fmt::format("write {} = \"...\"", entry.name));
    }
    SEALANE_RETURN_IF_ERROR(Set(place, entry.text, origin));
    if (place.table->name == kKafkaTable) {
      WarnOfLiteral(entry.name, entry.text, ShownProperty(place.table->name, place.property, entry.text), origin);
    }
    return Ok();
  }

  void WarnOfLiteral(const std::string& name, const std::string& written, const std::string& shown,
                     const std::string& place) {
    if (written.find("${") != std::string::npos || shown == written) return;
    config_.warnings_.push_back(fmt::format("{}: {} holds a password; keep it out of the file with {}${{file:/path}}",
                                            place, name, name.ends_with("url") ? "store.password_file or " : ""));
  }

  // ---- environment and flags ----

  void ApplyVariables() {
    for (const auto& [name, value] : sources_.variables) {
      if (!IsOurVariable(name)) continue;
      const std::string dotted = DottedName(name);
      if (const auto place = LocateKey(dotted)) {
        if (value.empty()) continue;
        if (auto set = Set(*place, value, name); !set) Problem(name, set.error());
        continue;
      }
      std::vector<std::string> known = {std::string(kFileVariable)};
      for (const std::string& key : NeighboursOf(dotted)) known.push_back(VariableName(key));
      Problem("environment", UnknownName("variable", name, known));
    }
  }

  // `--store eu` names a section; everything else is a URL.
  static bool NamesStore(const FlagValue& flag) {
    return flag.key == Key::kStoreUrl && CheckSectionName(flag.text).has_value();
  }

  static Error BadFlag(const FlagValue& flag, const Error& error) {
    return Error(ErrorKind::kMisuse, "bad_usage", fmt::format("{}: {}", flag.flag, error.message()))
        .WithHint(error.hint())
        .WithField(flag.flag);
  }

  // Flags are looked at first, because a bad flag is a matter of usage and not of the set-up, and applied last.
  Status CheckFlags() const {
    for (const FlagValue& flag : sources_.flags) {
      if (NamesStore(flag)) continue;
      const KeySpec& spec = SpecOf(flag.key);
      auto checked = Checked(spec, flag.text);
      if (!checked) return BadFlag(flag, NamingKey(std::string(spec.name), checked.error()));
    }
    return Ok();
  }

  Status ApplyFlags() {
    for (const FlagValue& flag : sources_.flags) {
      if (NamesStore(flag)) {
        if (!problems_.empty()) continue;
        if (config_.FindStore(flag.text) == nullptr) return BadFlag(flag, UnknownSection("store", flag.text));
        config_.store_name_ = flag.text;
        continue;
      }
      const KeySpec& spec = SpecOf(flag.key);
      SEALANE_RETURN_IF_ERROR(
          Set({.spec = &spec, .table = nullptr, .section = SectionOf(spec), .name = {}, .property = {}}, flag.text,
              flag.flag));
    }
    return Ok();
  }

  void ReadPassword(Section section, const std::string& name, Settings& settings) {
    const Setting& setting = settings.Of(Key::kStorePasswordFile);
    if (setting.value.empty()) return;
    auto secret = ReadSecretFile(setting.value);
    if (secret) return settings.SetPassword(Secret(*std::move(secret)));
    const std::string key = FullName(SpecOf(Key::kStorePasswordFile).name, section, name);
    Problem(setting.origin, NamingKey(key, secret.error()));
  }

  // ---- what names what ----

  Error UnknownSection(std::string_view what, std::string_view name) const {
    const bool store = what == "store";
    std::vector<std::string> known = {std::string(kDefaultName)};
    for (const auto& section : store ? config_.stores_ : config_.brokers_) known.push_back(section.first);
    return Bad(
        fmt::format("there is no {} named `{}`", what, name),
        Suggestion(name, known, fmt::format("add [{}s.{}], or use one of {}", what, name, fmt::join(known, ", "))));
  }

  void CheckReferences() {
    for (const auto& [name, route] : config_.routes_) {
      for (const std::string& store : route.List(Key::kRouteStore)) {
        if (config_.FindStore(store) == nullptr) {
          Problem(route.Of(Key::kRouteStore).origin,
                  NamingKey(FullName("route.store", Section::kRoute, name), UnknownSection("store", store)));
        }
      }
      const std::string& broker = route.Text(Key::kRouteBroker);
      if (config_.FindBroker(broker) == nullptr) {
        Problem(route.Of(Key::kRouteBroker).origin,
                NamingKey(FullName("route.broker", Section::kRoute, name), UnknownSection("broker", broker)));
      }
    }
  }

  struct Noted {
    std::string whole;
    std::string message;
    std::string hint;
  };
  const ConfigSources& sources_;
  Config config_;
  std::vector<Noted> problems_;
};

Result<Config> LoadConfig(const ConfigSources& sources) {
  return ConfigLoader(sources).Load();
}

}  // namespace sealane::cli
