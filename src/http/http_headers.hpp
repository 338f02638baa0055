#pragma once

#include <string>
#include <vector>

#include "http/http_options.hpp"

namespace sealane::http {

/// The header lines of the request for one message, as libcurl takes them.
///
/// The message's headers are headers of the request; `ce_` becomes `ce-`, as the HTTP binding of CloudEvents has it,
/// and names that HTTP itself acts upon (`host`, `authorization`, ...) get `own-` in front. `Idempotency-Key` is the
/// event's id, `Sealane-Topic` and `Sealane-Key` say where the message belongs. Nothing in a message can end a header
/// line: values of `ce-`, `Sealane-Topic` and `Sealane-Key` are percent-encoded as CloudEvents demands (space, quote,
/// percent and everything that is not printable ASCII), other values when they contain what HTTP does not carry.
std::vector<std::string> HeaderLines(const HeldMessage& message, const HttpOptions& options);

}  // namespace sealane::http
