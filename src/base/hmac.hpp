#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/sha256.hpp"

namespace sealane {

/// HMAC with SHA-256 (RFC 2104). A key of any length, the empty one included, which proves nothing.
Sha256Digest HmacSha256(std::string_view key, std::string_view message);

/// Whether two byte strings are equal, in a time that depends on their lengths alone: how much of a guess is right
/// cannot be measured.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace sealane
