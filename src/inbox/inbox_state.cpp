#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/time_text.hpp"
#include "inbox/inbox_store.hpp"

namespace sealane {
namespace {

constexpr std::array<std::pair<InboxMode, std::string_view>, 2> kModes = {{
    {InboxMode::kRecord, "record"},
    {InboxMode::kOffsets, "offsets"},
}};
constexpr std::array<std::pair<InboxState, std::string_view>, 7> kStates = {{
    {InboxState::kProcessed, "PROCESSED"},
    {InboxState::kIgnored, "IGNORED"},
    {InboxState::kReceived, "RECEIVED"},
    {InboxState::kGap, "GAP"},
    {InboxState::kFailed, "FAILED"},
    {InboxState::kDead, "DEAD"},
    {InboxState::kSkipped, "SKIPPED"},
}};

template <class Table, class Value>
std::string_view NameIn(const Table& table, Value value) {
  for (const auto& [entry, name] : table) {
    if (entry == value) return name;
  }
  return "?";
}

template <class Table>
auto ValueIn(const Table& table, std::string_view text) -> std::optional<decltype(table.front().first)> {
  for (const auto& [entry, name] : table) {
    if (name == text) return entry;
  }
  return std::nullopt;
}

}  // namespace

std::string_view ToString(InboxMode mode) {
  return NameIn(kModes, mode);
}
std::optional<InboxMode> ParseInboxMode(std::string_view text) {
  return ValueIn(kModes, text);
}
std::string_view ToString(InboxState state) {
  return NameIn(kStates, state);
}
std::optional<InboxState> ParseInboxState(std::string_view text) {
  return ValueIn(kStates, text);
}

std::string ToString(const ResumePoint& point) {
  switch (point.kind) {
    case ResumePoint::Kind::kBeginning:
      return "beginning";
    case ResumePoint::Kind::kGroup:
      return "group";
    case ResumePoint::Kind::kOffset:
      return std::to_string(point.offset);
    case ResumePoint::Kind::kTime:
      return ToRfc3339(point.time);
  }
  return {};
}
std::optional<ResumePoint> ParseResumePoint(std::string_view text) {
  if (text == "beginning") return ResumePoint{.kind = ResumePoint::Kind::kBeginning};
  if (text == "group") return ResumePoint{.kind = ResumePoint::Kind::kGroup};
  std::int64_t offset = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), offset);
  if (error == std::errc() && end == text.data() + text.size() && offset >= 0) {
    return ResumePoint{.kind = ResumePoint::Kind::kOffset, .offset = offset};
  }
  if (const auto time = ParseRfc3339(text)) return ResumePoint{.kind = ResumePoint::Kind::kTime, .time = *time};
  return std::nullopt;
}

Status CheckMove(const ProgressMove& move) {
  if (move.to >= move.from) return Ok();
  return Error(ErrorKind::kMisuse, "progress_backwards",
               fmt::format("partition {} of {} would go back from {} to {}", move.partition.number,
                           move.partition.topic, move.from, move.to))
      .WithHint("what is in front of the position is done: drop it");
}

}  // namespace sealane
