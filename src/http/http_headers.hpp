#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/wire.hpp"
#include "http/http_options.hpp"
#include "tasks/task_store.hpp"

namespace sealane::http {

/// The header lines of the request for one message, as libcurl takes them.
///
/// The message's headers are headers of the request; `ce_` becomes `ce-`, as the HTTP binding of CloudEvents has it,
/// and names that HTTP itself acts upon (`host`, `authorization`, ...) get `own-` in front. `Idempotency-Key` is the
/// event's id, `Sealane-Topic` and `Sealane-Key` say where the message belongs. Nothing in a message can end a header
/// line: values of `ce-`, `Sealane-Topic` and `Sealane-Key` are percent-encoded as CloudEvents demands (space, quote,
/// percent and everything that is not printable ASCII), other values when they contain what HTTP does not carry.
///
/// Many receivers do not tell upper from lower case nor `-` from `_` in names, so neither is told apart here. A
/// configured header wins over everything but `Idempotency-Key`: a header of the event with its name gets `own-` in
/// front, one of ours is left out. A header of the event that has the name of one of ours gets `own-` in front as
/// well. Of two headers of the event with one name, the second value stands behind the first and a comma.
std::vector<std::string> HeaderLines(const HeldMessage& message, const HttpOptions& options);

/// The header lines of one attempt at a task: `Idempotency-Key`, which nothing can replace, `X-Sealane-Task-Id`,
/// `X-Sealane-Attempt`, `Content-Type`, `traceparent`, the target's headers and the task's own.
///
/// A header of the task that has one of these names, that of a header of the target, or one that HTTP itself acts
/// upon gets `own-` in front; of the others that we write, the target's win. The key is percent-encoded when HTTP
/// does not carry it as it is, or when it contains a percent sign: so different keys stay different. Names are those
/// that a task may have; a percent sign in them stays.
std::vector<std::string> TaskHeaderLines(const ClaimedTask& claimed, const Headers& of_target);

/// The headers of a task that carries an event on: what HeaderLines() makes of those of the message, `Sealane-Topic`
/// and `Sealane-Key` included, so that every event can become a task. Those whose names differ by nothing but case
/// or `_` for `-` are joined with a comma; one that is named as ours gets `own-` in front. Content type and trace
/// context have fields of their own in a task and are left out.
Headers TaskHeadersOf(const WireMessage& message, std::string_view topic);

/// A value as it is, or percent-encoded when it contains what HTTP does not carry.
std::string CarriedValue(std::string_view value);

}  // namespace sealane::http
