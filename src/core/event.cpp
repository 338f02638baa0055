#include "sealane/event.hpp"

namespace sealane {

std::string_view ToString(EventKind kind) {
  return kind == EventKind::kCommand ? "command" : "event";
}

std::optional<EventKind> ParseEventKind(std::string_view text) {
  if (text == "event") return EventKind::kEvent;
  if (text == "command") return EventKind::kCommand;
  return std::nullopt;
}

}  // namespace sealane
