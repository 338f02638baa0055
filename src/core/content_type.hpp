#pragma once

#include <string_view>

namespace sealane {

/// Whether a content type says that the bytes are JSON: `application/json` or any `...+json`, with or without
/// parameters, in either case.
bool IsJsonContentType(std::string_view content_type);

}  // namespace sealane
