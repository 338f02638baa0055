#pragma once

#include <string>
#include <vector>

#include "ops/dead_letters.hpp"

namespace sealane::cli {

/// An event that was set aside as a JSON object on one line.
std::string DeadLetterJson(const DeadLetter& letter);
/// One aligned line each.
std::string DeadLetterTable(const std::vector<DeadLetter>& letters, bool color);
/// Everything about one, for people.
std::string DeadLetterDetails(const DeadLetter& letter);

}  // namespace sealane::cli
