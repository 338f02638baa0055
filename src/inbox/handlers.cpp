#include <algorithm>

#include "sealane/assert.hpp"
#include "sealane/handler.hpp"

namespace sealane {

void Handlers::On(std::string type, VersionRange versions, Handler handler) {
  SEALANE_ASSERT(versions.from >= 1 && versions.from <= versions.to, "a range of versions is not empty");
  auto& ranges = by_type_[std::move(type)];
  for (const auto& [range, unused] : ranges) {
    SEALANE_ASSERT(versions.to < range.from || range.to < versions.from, "a version of a type has one handler");
  }
  ranges.emplace_back(versions, std::move(handler));
}

Handlers::Found Handlers::Find(std::string_view type, std::int32_t schema_version) const {
  const auto ranges = by_type_.find(type);
  if (ranges == by_type_.end()) {
    return any_ ? Found{&any_, Missing::kNothing} : Found{nullptr, Missing::kType};
  }
  const auto fits = std::ranges::find_if(ranges->second, [&](const auto& entry) {
    return entry.first.from <= schema_version && schema_version <= entry.first.to;
  });
  return fits == ranges->second.end() ? Found{nullptr, Missing::kVersion} : Found{&fits->second, Missing::kNothing};
}

}  // namespace sealane
