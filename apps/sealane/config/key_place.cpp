#include "config/key_place.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace sealane::cli {
namespace {

struct Prefix {
  Section section;
  std::string_view named;  // before the name of a section
  std::string_view table;  // in the table of keys
};
constexpr std::array<Prefix, 5> kPrefixes = {{
    {Section::kStore, "stores.", "store."},
    {Section::kBroker, "brokers.", "broker."},
    {Section::kRoute, "route.", "route."},
    {Section::kTarget, "target.", "target."},
    {Section::kReceiver, "receiver.", "receiver."},
}};

// `stores.eu.url` as {kStore, eu, store.url}; `log.level` as {kProgram, "", log.level}.
struct Parts {
  Section section = Section::kProgram;
  std::string name;
  std::string key;
};

Parts Taken(std::string_view dotted) {
  for (const Prefix& prefix : kPrefixes) {
    if (!dotted.starts_with(prefix.named)) continue;
    const std::string_view rest = dotted.substr(prefix.named.size());
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view key = dot < rest.size() ? rest.substr(dot + 1) : std::string_view();
    return {prefix.section, std::string(rest.substr(0, dot)), std::string(prefix.table) + std::string(key)};
  }
  Parts parts{.section = Section::kProgram, .name = {}, .key = std::string(dotted)};
  if (dotted.starts_with("store.")) parts.section = Section::kStore;
  if (dotted.starts_with("broker.")) parts.section = Section::kBroker;
  return parts;
}

}  // namespace

std::optional<KeyPlace> LocateKey(std::string_view dotted) {
  Parts parts = Taken(dotted);
  if (const KeySpec* const spec = FindKey(parts.key)) {
    return KeyPlace{
        .spec = spec, .table = nullptr, .section = parts.section, .name = std::move(parts.name), .property = {}};
  }
  for (const FreeTable& table : FreeTables()) {
    const std::string start = std::string(table.name) + '.';
    if (!parts.key.starts_with(start) || parts.key.size() == start.size()) continue;
    return KeyPlace{.spec = nullptr,
                    .table = &table,
                    .section = parts.section,
                    .name = std::move(parts.name),
                    .property = parts.key.substr(start.size())};
  }
  return std::nullopt;
}

std::optional<KeyPlace> LocateSection(std::string_view dotted) {
  // `[relay]`, `[store]`, `[broker.journal]`: what some keys begin with.
  const std::string start = fmt::format("{}.", dotted);
  for (const KeySpec& spec : Keys()) {
    const Section section = SectionOf(spec);
    if (!spec.name.starts_with(start) || IsAlwaysNamed(section)) continue;
    return KeyPlace{.spec = nullptr, .table = nullptr, .section = section, .name = {}, .property = {}};
  }
  Parts parts = Taken(dotted);
  const bool is_section = !parts.name.empty() && parts.key.ends_with('.');
  const bool is_table = std::any_of(FreeTables().begin(), FreeTables().end(),
                                    [&](const FreeTable& table) { return table.name == parts.key; });
  if (!is_section && !is_table) return std::nullopt;
  return KeyPlace{
      .spec = nullptr, .table = nullptr, .section = parts.section, .name = std::move(parts.name), .property = {}};
}

std::string FullName(std::string_view key_name, Section section, std::string_view name) {
  for (const Prefix& prefix : kPrefixes) {
    if (prefix.section != section) continue;
    if (name.empty() && !IsAlwaysNamed(section)) break;
    return fmt::format("{}{}.{}", prefix.named, name.empty() ? "NAME" : name, key_name.substr(prefix.table.size()));
  }
  return std::string(key_name);
}

std::vector<std::string> NeighboursOf(std::string_view dotted) {
  const Parts parts = Taken(dotted);
  std::vector<std::string> names;
  for (const KeySpec& spec : Keys()) {
    const Section section = SectionOf(spec);
    const bool same = section == parts.section && !parts.name.empty();
    if (IsAlwaysNamed(section) && !same) {
      names.push_back(FullName(spec.name, section, section == Section::kRoute ? "main" : "NAME"));
    } else {
      names.push_back(FullName(spec.name, section, same ? parts.name : std::string()));
    }
  }
  return names;
}

std::string DottedName(std::string_view variable) {
  constexpr std::string_view kStart = "SEALANE_";
  if (!variable.starts_with(kStart)) return {};
  std::string dotted;
  for (std::size_t at = kStart.size(); at < variable.size(); ++at) {
    const char c = variable[at];
    if (c >= 'a' && c <= 'z') return {};
    if (c == '_' && at + 1 < variable.size() && variable[at + 1] == '_') {
      dotted += '.';
      ++at;
    } else {
      dotted += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  const auto place = LocateKey(dotted);
  if (!place || place->table == nullptr) return dotted;
  const char separator = place->table->name == kKafkaTable || place->table->name == kTopicConfigTable ? '.' : '-';
  std::replace(dotted.end() - static_cast<std::ptrdiff_t>(place->property.size()), dotted.end(), '_', separator);
  return dotted;
}

}  // namespace sealane::cli
