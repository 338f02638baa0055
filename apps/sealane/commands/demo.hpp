#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane demo`: a small shop, everything that can go wrong, and a verdict by counting.
std::unique_ptr<Command> MakeDemoCommand();
/// `sealane demo-hasty-relay`, hidden: a relay that counts messages as delivered before it has sent them, so that the
/// demo can show that its verdict notices.
std::unique_ptr<Command> MakeHastyRelayCommand();

}  // namespace sealane::cli
