#include "kafka/topic_book.hpp"

#include <algorithm>

namespace sealane::kafka {

Topic* TopicBook::FindOrMake(std::string_view name) {
  // Neighbours mostly go to the same topic.
  if (!topics_.empty() && topics_.front().name == name) return &topics_.front();
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    topics_.splice(topics_.begin(), topics_, found->second);
    return &topics_.front();
  }
  if (topics_.size() >= topics_max_ && !MakeRoom()) return nullptr;
  Topic& topic = topics_.emplace_front();
  topic.id = ++last_id_;
  topic.name = name;
  by_name_.emplace(topic.name, topics_.begin());
  return &topic;
}

Topic* TopicBook::Find(std::uint64_t id) {
  const auto found = std::find_if(topics_.begin(), topics_.end(), [&](const Topic& topic) { return topic.id == id; });
  return found != topics_.end() ? &*found : nullptr;
}

void TopicBook::ForEach(const std::function<void(Topic&)>& visit) {
  for (Topic& topic : topics_) visit(topic);
}

bool TopicBook::MakeRoom() {
  const auto idle = std::find_if(topics_.rbegin(), topics_.rend(), [](const Topic& topic) {
    return topic.in_flight == 0 && topic.held.empty() && !topic.listed;
  });
  if (idle == topics_.rend()) return false;
  by_name_.erase(idle->name);
  topics_.erase(std::prev(idle.base()));
  return true;
}

bool IsTopicName(std::string_view name) {
  constexpr std::size_t kLengthMax = 249;
  return !name.empty() && name.size() <= kLengthMax && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                  c == '_' || c == '-';
         });
}

}  // namespace sealane::kafka
