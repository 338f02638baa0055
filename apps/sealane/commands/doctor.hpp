#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane doctor`: looks at the configuration, every store and every broker, and says what to do.
std::unique_ptr<Command> MakeDoctorCommand();

}  // namespace sealane::cli
