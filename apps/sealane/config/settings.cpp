#include "config/settings.hpp"

#include <charconv>

#include "config/units.hpp"
#include "config/values.hpp"
#include "kafka/kafka_options.hpp"

namespace sealane::cli {

Settings::Settings() {
  for (const KeySpec& spec : Keys()) {
    settings_.push_back({.written = std::string(spec.default_text), .value = std::string(spec.default_text)});
  }
}

std::chrono::milliseconds Settings::Duration(Key key) const {
  return ParseDuration(Text(key)).value();
}
std::uint64_t Settings::Size(Key key) const {
  return ParseSize(Text(key)).value();
}
std::int64_t Settings::Integer(Key key) const {
  const std::string& text = Text(key);
  std::int64_t number = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  SEALANE_ASSERT(failure == std::errc{}, "a number of the configuration was checked when it was read");
  return number;
}
double Settings::Decimal(Key key) const {
  const std::string& text = Text(key);
  double number = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  SEALANE_ASSERT(failure == std::errc{}, "a number of the configuration was checked when it was read");
  return number;
}
std::vector<std::string> Settings::List(Key key) const {
  return ListItems(Text(key));
}

const std::map<std::string, Setting>& Settings::Table(std::string_view name) const {
  static const std::map<std::string, Setting> kNone;
  const auto found = tables_.find(std::string(name));
  return found == tables_.end() ? kNone : found->second;
}

std::string ShownProperty(std::string_view table, std::string_view name, std::string_view value) {
  // A header of a request may carry a token under any name.
  if (table == kHttpHeaderTable || table == kTargetHeaderTable) return "***";
  return kafka::IsSecretProperty(name) ? "***" : std::string(value);
}

}  // namespace sealane::cli
