#include "kafka/kafka_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane::kafka {
namespace {

constexpr std::string_view kScheme = "kafka://";
constexpr std::string_view kDefaultPort = "9092";

Error InvalidUrl(std::string_view url, std::string_view why) {
  return Error(ErrorKind::kMisconfigured, "invalid_broker_url",
               fmt::format("'{}' is not the address of a Kafka: {}", EscapeForTerminal(RedactUrl(url)), why))
      .WithField("url")
      .WithHint("write kafka://host:port, with a comma between several");
}

bool IsPort(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

bool IsHost(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_';
  });
}

bool IsBracketedAddress(std::string_view text) {
  return text.size() > 2 && text.front() == '[' && text.back() == ']' &&
         text.find_first_not_of("0123456789abcdefABCDEF:.%", 1) == text.size() - 1;
}

}  // namespace

Result<std::string> BrokersOf(std::string_view url) {
  if (!url.starts_with(kScheme)) return InvalidUrl(url, "it does not start with kafka://");
  std::string_view rest = url.substr(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find('@') != std::string_view::npos) {
    return InvalidUrl(url, "user and password do not belong here; set sasl.username and the password");
  }
  std::string brokers;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view broker = rest.substr(0, comma);
    // The last colon, unless it stands inside the brackets of an IPv6 address.
    const std::size_t colon = broker.ends_with(']') ? std::string_view::npos : broker.rfind(':');
    const std::string_view host = broker.substr(0, colon);
    const std::string_view port = colon == std::string_view::npos ? kDefaultPort : broker.substr(colon + 1);
    if (!IsHost(host) && !IsBracketedAddress(host)) return InvalidUrl(url, "a host is missing or misspelt");
    if (!IsPort(port)) return InvalidUrl(url, "a port is not a number from 1 to 65535");
    brokers += fmt::format("{}{}:{}", brokers.empty() ? "" : ",", host, port);
    if (comma == std::string_view::npos) return brokers;
    rest.remove_prefix(comma + 1);
  }
}

bool IsSecretProperty(std::string_view name) {
  constexpr std::array<std::string_view, 6> kSigns = {"password", "passphrase",         "secret",
                                                      "key.pem",  "oauthbearer.config", "jaas"};
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [&](std::string_view sign) { return name.find(sign) != std::string_view::npos; });
}

}  // namespace sealane::kafka
