#pragma once

#include <memory>

#include "sealane/clock.hpp"

#include "broker/held_message.hpp"
#include "broker/publisher.hpp"

namespace sealane {

struct StdoutOptions {
  int descriptor = 1;    ///< borrowed: a pipe, a terminal, a file
  HoldLimits hold = {};  ///< counted in bytes of output
};

/// Writes each message as one line of JSON: `id`, `topic`, `key`, `headers` (if any) and `value`, or `value_base64`
/// when the value is not UTF-8.
///
/// Persisted means handed to the system whole. A reader that is slow makes messages wait; one that is gone
/// (`output_failed`) makes the publisher misconfigured, and never ends the process with SIGPIPE. A line that was
/// begun is finished, also after Abandon(), so that the output stays readable.
std::unique_ptr<Publisher> MakeStdoutPublisher(const StdoutOptions& options, Clock& clock);

}  // namespace sealane
