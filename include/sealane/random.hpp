#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

namespace sealane {

/// The only source of randomness in the library, so that one seed reproduces a run. Safe to use from several threads.
class Random {
 public:
  virtual ~Random() = default;
  virtual void Fill(std::span<std::byte> bytes) = 0;
  std::uint64_t NextU64();
  /// Uniform in [0, bound); bound must not be 0.
  std::uint64_t Below(std::uint64_t bound);
};

/// The kernel's generator, read in blocks because one system call per id would dominate its cost.
class SystemRandom final : public Random {
 public:
  void Fill(std::span<std::byte> bytes) override;
  static SystemRandom& Instance();

 private:
  std::mutex mutex_;
  std::byte buffer_[512] = {};
  std::size_t left_ = 0;
};

/// Reproducible: the same seed gives the same bytes on every machine.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
  void Fill(std::span<std::byte> bytes) override;

 private:
  std::mutex mutex_;
  std::uint64_t state_;
};

}  // namespace sealane
