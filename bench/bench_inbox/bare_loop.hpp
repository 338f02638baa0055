#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "bench_inbox/contestant.hpp"
#include "bench_inbox/effect_session.hpp"
#include "bench_inbox/meter.hpp"

namespace sealane::bench {

/// Upserts in transactions of `batch`, one thread with its connection.
class BareLoop {
 public:
  BareLoop(const Contestant& contestant, Meter& meter)
      : session_(OpenEffects(contestant)), meter_(meter), batch_(contestant.batch) {}

  void Apply(const std::string& key, const std::string& payload) {
    meter_.Begin();
    if (open_ == 0) session_->Begin();
    session_->Upsert(key, payload);
    if (++open_ == batch_) Finish();
  }
  void Finish() {
    if (open_ > 0) session_->Commit();
    open_ = 0;
  }

 private:
  std::unique_ptr<EffectSession> session_;
  Meter& meter_;
  const std::size_t batch_;
  std::size_t open_ = 0;
};

/// Runs `work` once per worker, side by side: it opens what it needs, arrives at the start, and works.
Lap RunWorkers(const Contestant& contestant,
               const std::function<void(std::size_t worker, Meter& meter, const std::function<void()>& start)>& work);

/// The messages of a Feed from memory, shared between the workers by partition.
Lap RunBare(const Contestant& contestant);

}  // namespace sealane::bench
