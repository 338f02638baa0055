#pragma once

#include <string_view>

#include "sealane/event.hpp"
#include "sealane/result.hpp"

namespace sealane::cli {

/// Reads an event from one JSON object with the members of EventFields(), `headers` (an object of texts),
/// `unique_version` (a truth), and one of `payload` (any JSON value, taken byte for byte), `payload_text` and
/// `payload_base64`. Unknown and doubled members are refused. Errors are kRejected with the member as field.
Result<Event> EventFromJson(std::string_view json, Timestamp now);

}  // namespace sealane::cli
