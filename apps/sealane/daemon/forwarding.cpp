#include "daemon/forwarding.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "config/secret_reference.hpp"
#include "core/wire.hpp"
#include "http/http_headers.hpp"
#include "http/task_executor.hpp"

namespace sealane::cli {
namespace {

/// No topic has a slash, so different topics or keys give different orders. A key too long for a task is known by its
/// hash.
std::string OrderKeyOf(const Envelope& event) {
  if (event.key.empty()) return {};
  std::string order_key = event.topic + "/" + event.key;
  if (order_key.size() > ForwardLimits().key_bytes_max) order_key = event.topic + "/" + ToHex(Sha256(event.key));
  return order_key;
}

}  // namespace

Result<ForwardAddress> ParseForwardUrl(std::string_view url) {
  const std::size_t scheme = url.starts_with("https://") ? 8 : url.starts_with("http://") ? 7 : 0;
  const std::size_t end = std::min(url.find_first_of("/?#", scheme), url.size());
  const bool plain = url.find_first_of(" \t\r\n#") == std::string_view::npos;
  const auto refused = [&](std::string_view what, std::string hint) {
    return Error(ErrorKind::kMisconfigured, "bad_forward_url",
                 fmt::format("`{}` {}", EscapeForTerminal(RedactUrl(url)), what))
        .WithHint(std::move(hint));
  };
  if (scheme == 0 || end == scheme || !plain) {
    return refused("is no address to forward to", "write http://host/path or https://host/path");
  }
  std::string operation(url.substr(end));
  if (!operation.starts_with('/')) operation.insert(0, 1, '/');
  // Every task has it: what would be refused is better refused once, and now.
  if (!IsTaskPath(operation)) {
    return refused("has a path that cannot be sent",
                   "write it without `..` and backslashes, and percent-encode what is not ASCII");
  }
  const std::size_t operation_max = ForwardLimits().key_bytes_max;
  if (operation.size() > operation_max) {
    return refused(fmt::format("has a path and query of {} bytes", operation.size()),
                   fmt::format("at most {} are taken", operation_max));
  }
  return ForwardAddress{.origin = std::string(url.substr(0, end)), .operation = std::move(operation)};
}

Result<Header> ParseForwardHeader(const std::string& text, const std::map<std::string, std::string>& variables) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error(ErrorKind::kMisconfigured, "bad_header", "a header has a name and a value")
        .WithHint("write NAME=env:VARIABLE, NAME=file:PATH or NAME=text");
  }
  Header header{text.substr(0, equals), text.substr(equals + 1)};
  if (CheckSecretReference(header.value)) {
    SEALANE_ASSIGN_OR_RETURN(const Secret secret, ReadSecretReference(header.value, variables));
    header.value = secret.Reveal();
  }
  return header;
}

Task ForwardTask(const Envelope& event, const std::string& target, const std::string& operation) {
  Task task{
      .target = target, .operation = operation, .idempotency_key = event.id.ToString(), .request = event.payload};
  task.tenant = event.tenant;
  task.content_type = http::CarriedValue(event.content_type);
  task.headers = http::TaskHeadersOf(ToWire(event, WireProfile::kCloudEvents), event.topic);
  task.correlation_id = event.correlation_id;
  task.causation_id = event.id.ToString();
  task.traceparent = event.traceparent;
  task.order_key = OrderKeyOf(event);
  return task;
}

TaskLimits ForwardLimits() {
  TaskLimits limits;
  limits.request_bytes_max = std::size_t{64} << 20U;
  limits.headers_max = 128;
  // Encoding makes three bytes of one, in the attributes as well.
  limits.header_bytes_max = std::size_t{128} << 10U;
  limits.name_bytes_max = std::size_t{1} << 10U;
  return limits;
}

Handling MakeForwarding(const Tasks& tasks, std::string target, std::string operation,
                        std::set<std::string, std::less<>> types) {
  return [&tasks, target = std::move(target), operation = std::move(operation), types = std::move(types)](
             const Envelope& event, const ReceivedMessage&, HandlerTransaction& tx) {
    if (!types.empty() && !types.contains(event.type)) return Decision::Ignore("no_handler");
    // One that cannot be a task is set aside for a person, and a store that is away is waited for: both by the
    // consumer, which sees the error.
    ValueOrThrow(tasks.Enqueue(tx, ForwardTask(event, target, operation)));
    return Decision::Done();
  };
}

}  // namespace sealane::cli
