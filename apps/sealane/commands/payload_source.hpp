#pragma once

#include <iosfwd>
#include <string>

#include "sealane/result.hpp"

namespace sealane::cli {

/// The bytes that `--payload`, or another flag, names: the text itself, `@FILE`, or `-` for all of `in`. Nothing is
/// added or removed. More than 64 MiB are refused before admission gets to see them.
Result<std::string> ReadPayload(const std::string& source, std::istream& in, const std::string& flag = "--payload");

}  // namespace sealane::cli
