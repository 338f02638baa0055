#include "sealane/once.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane {
namespace {

constexpr std::size_t kScopeMax = 255;
constexpr std::size_t kKeyMax = 1'024;

Status CheckField(std::string_view field, std::string_view value, std::size_t bytes_max) {
  const auto invalid = [&](std::string message, std::string hint) {
    return Error(ErrorKind::kRejected, "invalid_once", std::move(message))
        .WithField(std::string(field))
        .WithHint(std::move(hint));
  };
  if (value.empty()) return invalid(fmt::format("the {} is empty", field), "name what happens once");
  if (value.size() > bytes_max) {
    return invalid(fmt::format("the {} has {} bytes, at most {} are taken", field, value.size(), bytes_max),
                   "use a hash of it");
  }
  if (value.find('\0') != std::string_view::npos || !IsUtf8(value)) {
    return invalid(fmt::format("the {} is not UTF-8 without NUL", field), "write bytes as hex");
  }
  return Ok();
}

}  // namespace

Result<bool> EnsureOnce(TransactionRef transaction, std::string_view scope, std::string_view key) {
  SEALANE_RETURN_IF_ERROR(CheckField("scope", scope, kScopeMax));
  SEALANE_RETURN_IF_ERROR(CheckField("key", key, kKeyMax));
  return transaction->EnsureOnce(scope, key);
}

}  // namespace sealane
