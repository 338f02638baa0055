#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "demo/evidence.hpp"

namespace sealane::demo {

/// Committed events and deliveries, looked up by event. The evidence must outlive it.
class Books {
 public:
  explicit Books(const Evidence& evidence);

  /// Null when it is not in the outbox.
  const CommittedEvent* Find(const std::string& id) const;
  /// How often it was delivered.
  std::int64_t Times(const std::string& id) const;
  /// Null when it was never delivered.
  const Delivered* FirstOf(const std::string& id) const;
  /// How many different events were delivered.
  std::size_t distinct() const { return times_.size(); }
  /// `orders o-17 version 2` for people; the id when it is not in the outbox.
  std::string NameOf(const std::string& id) const;

 private:
  std::unordered_map<std::string, const CommittedEvent*> by_id_;
  std::unordered_map<std::string, std::int64_t> times_;
  std::unordered_map<std::string, const Delivered*> first_;
};

}  // namespace sealane::demo
