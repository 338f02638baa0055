#pragma once

#include "sealane/envelope.hpp"
#include "sealane/result.hpp"

#include "core/wire_reader.hpp"

namespace sealane {

/// A CloudEvents 1.0 event whose attributes are headers and whose data is the value.
Result<Envelope> ReadBinaryCloudEvent(const WireInput& input);

/// A CloudEvents 1.0 event that is one JSON document.
Result<Envelope> ReadStructuredCloudEvent(const WireInput& input);

}  // namespace sealane
