#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "sealane/assert.hpp"
#include "sealane/clock.hpp"
#include "sealane/event_id.hpp"

#include "base/hex.hpp"
#include "base/time_text.hpp"

namespace sealane {

/// Numbers, times and ids written out as text that stays where it is until the next Clear(): one buffer, made large
/// enough beforehand and kept from one event to the next.
class TextArena {
 public:
  /// Forgets everything and makes room for `size_max` bytes.
  void Clear(std::size_t size_max) {
    text_.clear();
    text_.reserve(size_max);
  }

  std::string_view Id(const EventId& id) {
    return Write([&] { AppendUuid(text_, id.bytes()); });
  }
  std::string_view Time(Timestamp time) {
    return Write([&] { AppendRfc3339(text_, time); });
  }
  std::string_view Hex(std::string_view bytes) {
    return Write([&] { AppendHex(text_, bytes); });
  }
  std::string_view Number(std::int64_t value) {
    std::array<char, std::numeric_limits<std::int64_t>::digits10 + 2> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    return Write([&] { text_.append(digits.data(), end); });
  }
  std::string_view Joined(std::string_view first, std::string_view second) {
    return Write([&] { (text_ += first) += second; });
  }
  /// What `write`, which appends to the string it is given, wrote.
  template <class Writer>
  std::string_view Made(const Writer& write) {
    return Write([&] { write(text_); });
  }

 private:
  template <class Writer>
  std::string_view Write(const Writer& write) {
    const std::size_t begin = text_.size();
    const char* const place = text_.data();
    write();
    SEALANE_ASSERT(text_.data() == place, "the arena was made large enough for what is written into it");
    return std::string_view(text_).substr(begin);
  }

  std::string text_;
};

}  // namespace sealane
