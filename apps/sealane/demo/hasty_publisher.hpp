#pragma once

#include <chrono>
#include <memory>

#include "sealane/clock.hpp"

#include "broker/publisher.hpp"

namespace sealane::demo {

/// A mistake on purpose (Plant::kMarkBeforePublish): says at once that a message is persisted, and sends it to the
/// real destination `later`. The relay settles meanwhile, so whatever is under way when the process dies is lost.
std::unique_ptr<Publisher> MakeHastyPublisher(std::unique_ptr<Publisher> real, std::chrono::milliseconds later,
                                              Clock& clock);

}  // namespace sealane::demo
