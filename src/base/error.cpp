#include "sealane/error.hpp"

#include <array>

#include <fmt/format.h>

namespace sealane {

std::string_view ToString(ErrorKind kind) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "unavailable", "conflict", "in_doubt", "fenced", "rejected", "misconfigured", "corrupt", "cancelled", "misuse"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string Error::ToString() const {
  std::string text = message_;
  for (const std::string& note : context_) text += fmt::format(", {}", note);
  if (!native_.empty()) text += fmt::format(" [{}]", native_);
  if (!hint_.empty()) text += fmt::format(". {}", hint_);
  return text;
}

}  // namespace sealane
