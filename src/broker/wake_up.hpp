#pragma once

#include <chrono>

#include "sealane/result.hpp"

namespace sealane {

/// An eventfd that one thread waits on and others write to, those of libraries among them.
class WakeUp {
 public:
  static Result<WakeUp> Make();
  WakeUp(WakeUp&& other) noexcept;
  WakeUp& operator=(WakeUp&&) = delete;
  ~WakeUp();

  int descriptor() const { return descriptor_; }
  void Ring() const;
  /// Forgets earlier rings. Whoever looks for news after this misses none.
  void Clear() const;
  /// Returns false when nobody rang in time.
  bool Wait(std::chrono::milliseconds limit) const;

 private:
  explicit WakeUp(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace sealane
