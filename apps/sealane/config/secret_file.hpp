#pragma once

#include <string>
#include <string_view>

#include "sealane/result.hpp"

namespace sealane::cli {

bool FileExists(const std::string& path);

/// The whole content of a file of at most `bytes_max`. kMisconfigured (`file_unreadable`) when it cannot be read.
Result<std::string> ReadSmallFile(const std::string& path, std::size_t bytes_max = std::size_t{1} << 20U);

/// A secret as mounted by a service manager: the content without one line break at the end. Empty files and contents
/// with a NUL are refused. No error repeats the content.
Result<std::string> ReadSecretFile(const std::string& path);

/// Replaces every ${file:/path} by its secret; in a URL, where the rest is text around it, percent-encoded.
Result<std::string> ExpandSecrets(std::string_view text, bool is_url);

}  // namespace sealane::cli
