#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "sealane/result.hpp"
#include "sealane/retry_policy.hpp"

namespace sealane {

// What the facades of this folder share: reading their options, and speaking of them.

/// The policy, or the one that goes by this name; kMisconfigured with `code` when there is none.
Result<RetryPolicy> PolicyOf(const std::variant<RetryPolicy, std::string>& retry, std::string_view code);

/// The program `sealane` keeps properties in a section of its file; an application has a field for them.
Error InWordsOfTheOptions(Error error);

}  // namespace sealane
