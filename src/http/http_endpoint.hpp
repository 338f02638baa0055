#pragma once

#include <string_view>

#include "sealane/event.hpp"
#include "sealane/result.hpp"

namespace sealane::http {

/// Checks that every user of libcurl makes before the first request; all kMisconfigured (`invalid_http_options`) with
/// a field. No message repeats a password.
Status CheckUrl(std::string_view url);
/// Configured headers, which are sent as they are: none may end its line.
Status CheckHeaders(const Headers& headers);

/// Makes libcurl ready, once per process. kMisconfigured (`http_unavailable`) when it cannot be.
Status PrepareLibrary();

}  // namespace sealane::http
