#pragma once

#include "sealane/handler.hpp"

namespace cases {

/// What happened to cases, on the topic `cases`, becomes a row per case.
sealane::Handlers KeepView();

/// What is asked for on the topic `case-commands` becomes tasks for the target `mail`.
sealane::Handlers FulfilCommands();

}  // namespace cases
