#pragma once

#include <memory>

#include "broker/publisher.hpp"

namespace sealane {

/// A destination that takes everything and keeps nothing: what remains is the relay's own speed.
std::unique_ptr<Publisher> MakeNullPublisher();

}  // namespace sealane
