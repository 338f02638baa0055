#pragma once

#include <map>
#include <string>
#include <string_view>

#include "sealane/result.hpp"

#include "base/log.hpp"

namespace sealane::cli {

/// Whether this is `file:PATH` or `env:VARIABLE`. The error does not repeat the text, which may be the secret itself.
Status CheckSecretReference(std::string_view text);

/// What a reference stands for: the content of the file without one line break at its end, or the value of the
/// variable. kMisconfigured when there is nothing.
Result<Secret> ReadSecretReference(std::string_view text, const std::map<std::string, std::string>& variables);

}  // namespace sealane::cli
