#pragma once

#include <string>

#include "sealane/random.hpp"

namespace sealane {

/// Host and process id.
std::string DefaultOwner();
/// A name that no other relay has: the base and eight random digits.
std::string NewOwner(const std::string& base, Random& random);

}  // namespace sealane
