#pragma once

#include <memory>

#include "broker/publisher.hpp"

namespace sealane::cli {

/// A destination that takes everything and keeps nothing (`null:`): for measuring what comes before it.
std::unique_ptr<Publisher> MakeNullPublisher();

}  // namespace sealane::cli
