#include "connect/option_words.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane {

Result<RetryPolicy> PolicyOf(const std::variant<RetryPolicy, std::string>& retry, std::string_view code) {
  if (const auto* const policy = std::get_if<RetryPolicy>(&retry)) return *policy;
  const std::string& name = std::get<std::string>(retry);
  if (auto preset = RetryPreset(name)) return *preset;
  return Error(ErrorKind::kMisconfigured, std::string(code),
               fmt::format("`{}` is none of patient, brief, payments", EscapeForTerminal(name)))
      .WithField("retry")
      .WithHint("use one of these, or a RetryPolicy");
}

Error InWordsOfTheOptions(Error error) {
  constexpr std::string_view kSection = "[broker.kafka]";
  std::string hint = error.hint();
  if (const std::size_t at = hint.find(kSection); at != std::string::npos) {
    hint.replace(at, kSection.size(), "broker_properties");
  }
  return std::move(error).WithHint(std::move(hint)).WithField("broker");
}

}  // namespace sealane
