#pragma once

#include "sealane/handler.hpp"

namespace example {

/// What follows from what happened to quotes and orders. Each handler works in the transaction that also records that
/// its event was seen.
sealane::Handlers CpqHandlers();

}  // namespace example
