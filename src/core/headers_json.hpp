#pragma once

#include <string>
#include <string_view>

#include "sealane/event.hpp"
#include "sealane/result.hpp"

namespace sealane {

/// Headers as the stores keep them: a JSON object of texts, in the order given.
std::string HeadersToJson(const Headers& headers);
/// kRejected (`invalid_headers`) for anything but a JSON object of texts.
Result<Headers> HeadersFromJson(std::string_view json);

}  // namespace sealane
