#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace sealane {

/// Why a request is not read any further. The connection is closed with it: where the request ends is not certain.
struct FramingFault {
  int status;
  std::string_view message;
};

/// Where the head of a request ends, blank line included; empty while more is needed.
std::optional<std::size_t> FindHeadEnd(std::string_view bytes);

/// Looks for everything by which two readers of the same bytes could disagree about where a request ends, which is
/// how a request is smuggled past a proxy: another coding than `chunked` alone, `Content-Length` beside it, twice, or
/// not a plain number, folded lines, white space in front of a colon, line ends other than CR LF, NUL bytes, two
/// hosts. `head` may be a part: what is wrong in it is told as soon as it is there.
std::optional<FramingFault> CheckFraming(std::string_view head);

}  // namespace sealane
