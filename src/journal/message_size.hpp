#pragma once

#include <cstddef>
#include <cstdint>

namespace sealane::journal {

/// What a message counts against retention by bytes: its parts and the row around them.
constexpr std::int64_t StoredSize(std::size_t key, std::size_t value, std::size_t headers_json) {
  constexpr std::size_t kRowBytes = 40;
  return static_cast<std::int64_t>(key + value + headers_json + kRowBytes);
}

}  // namespace sealane::journal
