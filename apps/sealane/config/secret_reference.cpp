#include "config/secret_reference.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/secret_file.hpp"

namespace sealane::cli {
namespace {
constexpr std::string_view kFile = "file:";
constexpr std::string_view kVariable = "env:";
}  // namespace

Status CheckSecretReference(std::string_view text) {
  const bool file = text.starts_with(kFile) && text.size() > kFile.size();
  const bool variable = text.starts_with(kVariable) && text.size() > kVariable.size();
  if (file || variable) return Ok();
  return Error(ErrorKind::kMisconfigured, "bad_secret_reference", "this does not say where the secret is")
      .WithHint("write file:/path/to/secret or env:VARIABLE");
}

Result<Secret> ReadSecretReference(std::string_view text, const std::map<std::string, std::string>& variables) {
  SEALANE_RETURN_IF_ERROR(CheckSecretReference(text));
  if (text.starts_with(kFile)) {
    SEALANE_ASSIGN_OR_RETURN(std::string content, ReadSecretFile(std::string(text.substr(kFile.size()))));
    return Secret(std::move(content));
  }
  const std::string name(text.substr(kVariable.size()));
  const auto found = variables.find(name);
  if (found == variables.end() || found->second.empty()) {
    return Error(ErrorKind::kMisconfigured, "secret_not_set",
                 fmt::format("the variable {} is not set, or empty", EscapeForTerminal(name)))
        .WithHint("set it in the environment of this process");
  }
  return Secret(found->second);
}

}  // namespace sealane::cli
