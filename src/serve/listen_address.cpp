#include "serve/listen_address.hpp"

#include <charconv>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane {
namespace {

Error Bad(std::string_view text) {
  return Error(ErrorKind::kMisconfigured, "bad_listen_address",
               fmt::format("`{}` is not an address to listen on", EscapeForTerminal(text)))
      .WithHint("write 127.0.0.1:9464, [::1]:9464, :9464 for all addresses, or off");
}

bool IsNumericHost(const std::string& host) {
  unsigned char buffer[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), buffer) == 1 || ::inet_pton(AF_INET6, host.c_str(), buffer) == 1;
}

}  // namespace

std::string ListenAddress::ToString() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Result<ListenAddress> ParseListenAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Bad(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  ListenAddress address;
  const auto [rest, failure] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (failure != std::errc{} || rest != port.data() + port.size()) return Bad(text);
  const bool bracketed = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!bracketed && host.find(':') != std::string_view::npos) return Bad(text);
  address.host = host.empty() ? "0.0.0.0" : host == "localhost" ? "127.0.0.1" : std::string(host);
  if (!IsNumericHost(address.host)) return Bad(text);
  return address;
}

}  // namespace sealane
