#pragma once

#include <memory>
#include <string>

#include "bench_inbox/contestant.hpp"

namespace sealane::bench {

/// A connection that applies effects and remembers nothing else.
class EffectSession {
 public:
  virtual ~EffectSession() = default;
  virtual void Begin() = 0;
  virtual void Upsert(const std::string& key, const std::string& payload) = 0;
  virtual void Commit() = 0;
};

/// With the upsert prepared; by the contestant's store and way.
std::unique_ptr<EffectSession> OpenEffects(const Contestant& contestant);

}  // namespace sealane::bench
