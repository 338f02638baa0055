#include "config/config.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/secret_file.hpp"
#include "config/toml_file.hpp"
#include "config/units.hpp"
#include "config/variables.hpp"

namespace sealane::cli {

std::chrono::milliseconds Config::Duration(Key key) const {
  return ParseDuration(Text(key)).value();
}
std::uint64_t Config::Size(Key key) const {
  return ParseSize(Text(key)).value();
}

/// Collects values from the weakest source to the strongest, and problems from all of them.
class ConfigLoader {
 public:
  explicit ConfigLoader(const ConfigSources& sources) : sources_(sources) {}

  Result<Config> Load() {
    SEALANE_RETURN_IF_ERROR(ApplyFlags(false));
    for (const KeySpec& spec : Keys()) {
      config_.settings_.push_back(
          {.written = std::string(spec.default_text), .value = std::string(spec.default_text)});
    }
    ApplyFile();
    ApplyVariables();
    SEALANE_RETURN_IF_ERROR(ApplyFlags(true));
    ReadPassword();
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

  static Error Bad(std::string message, std::string hint = {}) {
    return Error(ErrorKind::kMisconfigured, "bad_configuration", std::move(message)).WithHint(std::move(hint));
  }

  static Error UnknownName(std::string_view what, std::string_view name, std::span<const std::string> known) {
    const std::vector<std::string_view> candidates(known.begin(), known.end());
    const std::string_view meant = ClosestMatch(name, candidates);
    return Bad(fmt::format("unknown {} `{}`", what, EscapeForTerminal(name)),
               meant.empty() ? "sealane config print shows all keys" : fmt::format("did you mean `{}`?", meant));
  }

  // Takes a value over, or notes what is wrong with it.
  void Set(const KeySpec& spec, std::string_view written, const std::string& place) {
    auto checked = Checked(spec, written);
    if (!checked) return Problem(place, std::move(checked).error());
    Setting& setting = config_.settings_.at(static_cast<std::size_t>(spec.key));
    setting = {.written = std::string(written), .value = *std::move(checked), .origin = place};
  }

  static Result<std::string> Checked(const KeySpec& spec, std::string_view written) {
    const bool is_url = spec.type == KeyType::kStoreUrl;
    auto expanded = ExpandSecrets(written, is_url);
    if (!expanded) return NamingKey(spec, std::move(expanded).error());
    auto checked = CheckValue(spec, *expanded);
    if (!checked) return NamingKey(spec, std::move(checked).error());
    return checked;
  }

  static Error NamingKey(const KeySpec& spec, const Error& error) {
    return Bad(fmt::format("{}: {}", spec.name, error.message()), error.hint()).WithField(std::string(spec.name));
  }

  void ApplyFile() {
    const auto path = FindFile();
    if (!path) return;
    auto text = ReadSmallFile(*path);
    if (!text) return problems_.push_back({text.error().message(), text.error().message(), text.error().hint()});
    config_.file_ = *path;
    auto entries = ParseToml(*text);
    if (!entries) return Problem(fmt::format("{}:{}", *path, entries.error().context().at(0)), entries.error());
    for (const TomlEntry& entry : *entries) ApplyEntry(entry, fmt::format("{}:{}", *path, entry.line));
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

  void ApplyEntry(const TomlEntry& entry, const std::string& place) {
    const KeySpec* spec = FindKey(entry.name);
    if (spec == nullptr) {
      std::vector<std::string> known;
      for (const KeySpec& key : Keys()) known.emplace_back(key.name);
      return Problem(place, UnknownName("key", entry.name, known));
    }
    auto fits = CheckTomlType(*spec, entry);
    if (!fits) return Problem(place, fits.error());
    const std::size_t before = problems_.size();
    Set(*spec, entry.text, place);
    const bool literal = entry.text.find("${") == std::string::npos && ShownValue(*spec, entry.text) != entry.text;
    if (literal && problems_.size() == before) {
      config_.warnings_.push_back(
          fmt::format("{}: {} holds a password; keep it out of the file with {} or ${{file:/path}}", place,
                      spec->name, SpecOf(Key::kStorePasswordFile).name));
    }
  }

  static Status CheckTomlType(const KeySpec& spec, const TomlEntry& entry) {
    if (spec.type == KeyType::kTruth) {
      if (entry.type == TomlType::kTruth) return Ok();
      return Bad(fmt::format("{} is true or false", spec.name), "write it without quotes");
    }
    if (entry.type == TomlType::kText) return Ok();
    const bool measured =
        spec.type == KeyType::kDuration || spec.type == KeyType::kDurationOrNone || spec.type == KeyType::kSize;
    // A bare number goes on to the check of units, which has the better hint.
    if (measured && entry.type == TomlType::kInteger) return Ok();
    return Bad(fmt::format("{} is a {} in quotes", spec.name, DescribeType(spec)),
               fmt::format("write {} = \"...\"", spec.name));
  }

  void ApplyVariables() {
    for (const auto& [name, value] : sources_.variables) {
      if (!IsOurVariable(name)) continue;
      const auto spec =
          std::find_if(Keys().begin(), Keys().end(), [&](const KeySpec& key) { return VariableName(key) == name; });
      if (spec != Keys().end()) {
        if (!value.empty()) Set(*spec, value, name);
        continue;
      }
      std::vector<std::string> known = {std::string(kFileVariable)};
      for (const KeySpec& key : Keys()) known.push_back(VariableName(key));
      Problem("environment", UnknownName("variable", name, known));
    }
  }

  // Flags are looked at first, because a bad flag is a matter of usage and not of the set-up, and applied last.
  Status ApplyFlags(bool apply) {
    for (const FlagValue& flag : sources_.flags) {
      const KeySpec& spec = SpecOf(flag.key);
      auto checked = Checked(spec, flag.text);
      if (!checked) {
        return Error(ErrorKind::kMisuse, "bad_usage", fmt::format("{}: {}", flag.flag, checked.error().message()))
            .WithHint(checked.error().hint())
            .WithField(flag.flag);
      }
      if (apply) Set(spec, flag.text, flag.flag);
    }
    return Ok();
  }

  void ReadPassword() {
    const Setting& setting = config_.Of(Key::kStorePasswordFile);
    if (setting.value.empty()) return;
    auto secret = ReadSecretFile(setting.value);
    if (!secret) return Problem(setting.origin, NamingKey(SpecOf(Key::kStorePasswordFile), secret.error()));
    config_.password_ = Secret(*std::move(secret));
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
