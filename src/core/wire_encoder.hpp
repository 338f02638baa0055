#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/envelope_view.hpp"
#include "core/wire.hpp"

namespace sealane {

struct HeaderView {
  std::string_view name;
  std::string_view value;
};

/// A message whose parts lie in the event's buffer or in the encoder's; valid until the encoder's next Encode().
struct WireView {
  std::string_view key;
  std::string_view value;
  std::span<const HeaderView> headers;
};

/// Does what ToWire() does, many times, without allocating: buffers are kept from one event to the next.
///
/// Encode() gives byte for byte what ToWire() gives for the same event, profile and options; there is one
/// implementation and two doors to it. Not thread-safe: a worker has its own.
class WireEncoder {
 public:
  explicit WireEncoder(WireProfile profile, WireOptions options = {});

  /// Never fails: an event with headers that cannot be read is kCorrupt at the store, long before.
  WireView Encode(const EnvelopeView& event);

  WireProfile profile() const { return profile_; }

 private:
  struct Piece {  // a header whose value is in text_ or outside of it
    std::string_view name;
    std::string_view outside;
    std::size_t begin = 0;
    std::size_t size = 0;
    bool inside = false;
  };

  const WireProfile profile_;
  const WireOptions options_;
  std::string value_;
  std::string text_;
  std::vector<Piece> pieces_;
  std::vector<HeaderView> headers_;
};

}  // namespace sealane
