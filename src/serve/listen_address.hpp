#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sealane/result.hpp"

namespace sealane {

/// Where a server listens. Port 0: any that is free.
struct ListenAddress {
  std::string host;  ///< a numeric address: `127.0.0.1`, `::1`
  std::uint16_t port = 0;

  /// `127.0.0.1:9464`, `[::1]:9464`.
  std::string ToString() const;
};

/// Reads `127.0.0.1:9464`, `[::1]:9464`, `localhost:9464`, or `:9464` for all addresses. Names other than localhost
/// are not looked up, because a server belongs to an address. kMisconfigured (`bad_listen_address`) otherwise.
Result<ListenAddress> ParseListenAddress(std::string_view text);

}  // namespace sealane
