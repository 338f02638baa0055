#include "demo/books.hpp"

#include <fmt/format.h>

namespace sealane::demo {
namespace {

template <class Map>
typename Map::mapped_type ValueOf(const Map& map, const std::string& id) {
  const auto found = map.find(id);
  return found == map.end() ? typename Map::mapped_type{} : found->second;
}

}  // namespace

Books::Books(const Evidence& evidence) {
  for (const CommittedEvent& event : evidence.committed) by_id_.emplace(event.id, &event);
  for (const Delivered& delivery : evidence.deliveries) {
    ++times_[delivery.id];
    const Delivered*& first = first_[delivery.id];
    if (first == nullptr || delivery.offset < first->offset) first = &delivery;
  }
}

const CommittedEvent* Books::Find(const std::string& id) const {
  return ValueOf(by_id_, id);
}

std::int64_t Books::Times(const std::string& id) const {
  return ValueOf(times_, id);
}

const Delivered* Books::FirstOf(const std::string& id) const {
  return ValueOf(first_, id);
}

std::string Books::NameOf(const std::string& id) const {
  const CommittedEvent* const event = Find(id);
  return event == nullptr ? id : fmt::format("{} {} version {}", event->topic, event->key, event->version);
}

}  // namespace sealane::demo
