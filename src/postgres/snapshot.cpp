#include "postgres/snapshot.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace sealane::postgres {
namespace {

// How many numbers that were not running are read in vain rather than looked up one by one.
constexpr std::uint64_t kNear = 100;

template <class T>
bool TakeNumber(std::string_view& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool TakeChar(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

bool Read(std::string_view text, Snapshot& snapshot) {
  if (!TakeNumber(text, snapshot.xmin) || !TakeChar(text, ':')) return false;
  if (!TakeNumber(text, snapshot.xmax) || !TakeChar(text, ':')) return false;
  while (!text.empty() && text.front() != '/') {
    std::uint64_t xid = 0;
    if (!TakeNumber(text, xid)) return false;
    snapshot.running.push_back(xid);
    if (!TakeChar(text, ',')) break;
  }
  if (text.empty()) return true;
  return TakeChar(text, '/') && TakeNumber(text, snapshot.low) && TakeChar(text, '/') &&
         TakeNumber(text, snapshot.high) && TakeChar(text, '/') && TakeNumber(text, snapshot.server) && text.empty();
}

}  // namespace

Result<Snapshot> Snapshot::Parse(std::string_view text) {
  Snapshot snapshot;
  if (!Read(text, snapshot)) {
    return Error(ErrorKind::kCorrupt, "bad_position", fmt::format("`{}` is not a position in the log", text))
        .WithHint("somebody changed lane_state by hand; restore it, or start the route anew under another name");
  }
  return snapshot;
}

std::string Snapshot::Server() const {
  std::string text = fmt::format("{}:{}:", xmin, xmax);
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (i > 0) text.push_back(',');
    fmt::format_to(std::back_inserter(text), "{}", running[i]);
  }
  return text;
}

std::string Snapshot::Text() const {
  return fmt::format("{}/{}/{}/{}", Server(), low, high, server);
}

bool Snapshot::Sees(std::uint64_t xid) const {
  return xid < xmax && !std::binary_search(running.begin(), running.end(), xid);
}

bool Snapshot::Covers(const Snapshot& other) const {
  return xmax >= other.xmax &&
         std::none_of(running.begin(), running.end(), [&](std::uint64_t xid) { return other.Sees(xid); });
}

std::vector<std::uint64_t> FinishedBetween(const Snapshot& from, const Snapshot& to) {
  std::vector<std::uint64_t> finished;
  std::set_difference(from.running.begin(), from.running.end(), to.running.begin(), to.running.end(),
                      std::back_inserter(finished));
  return finished;
}

Stretch StretchOf(const Snapshot& from, const Snapshot& to) {
  Stretch stretch{.first = from.xmax, .end = to.xmax, .old = FinishedBetween(from, to)};
  while (!stretch.old.empty() && stretch.first - stretch.old.back() <= kNear) {
    stretch.first = stretch.old.back();
    stretch.old.pop_back();
  }
  return stretch;
}

}  // namespace sealane::postgres
