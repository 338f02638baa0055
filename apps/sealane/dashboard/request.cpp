#include "dashboard/request.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane::cli {
namespace {

Error BadRequest(std::string_view why) {
  return Error(ErrorKind::kRejected, "bad_request", std::string(why));
}

std::optional<int> HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return std::nullopt;
}

Result<std::string> Decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      decoded += ' ';
    } else if (text[i] == '%') {
      const auto high = i + 2 < text.size() ? HexDigit(text[i + 1]) : std::nullopt;
      const auto low = high ? HexDigit(text[i + 2]) : std::nullopt;
      if (!low) return BadRequest("the address has an escape that is none");
      decoded += static_cast<char>(*high * 16 + *low);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  if (!IsUtf8(decoded) || decoded.find('\0') != std::string::npos) return BadRequest("the address is not text");
  return decoded;
}

}  // namespace

std::optional<std::string> DashboardRequest::Find(std::string_view name) const {
  const auto found = parameters.find(std::string(name));
  if (found == parameters.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

Result<DashboardRequest> ParseDashboardTarget(std::string_view target) {
  DashboardRequest request;
  const std::size_t mark = std::min(target.find('?'), target.size());
  SEALANE_ASSIGN_OR_RETURN(request.path, Decode(target.substr(0, mark), false));
  std::string_view rest = target.substr(std::min(mark + 1, target.size()));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    SEALANE_ASSIGN_OR_RETURN(std::string name, Decode(pair.substr(0, equals), true));
    SEALANE_ASSIGN_OR_RETURN(std::string value, Decode(pair.substr(std::min(equals + 1, pair.size())), true));
    if (!request.parameters.emplace(std::move(name), std::move(value)).second) {
      return BadRequest("a parameter comes twice");
    }
  }
  return request;
}

Status CheckParameters(const DashboardRequest& request, std::span<const std::string_view> known) {
  for (const auto& [name, value] : request.parameters) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string_view meant = ClosestMatch(name, known);
    return Error(ErrorKind::kRejected, "bad_parameter", fmt::format("there is no parameter `{}` here", name))
        .WithHint(meant.empty() ? fmt::format("there are {}", fmt::join(known, ", "))
                                : fmt::format("did you mean `{}`?", meant));
  }
  return Ok();
}

bool IsLoopbackHost(std::string_view host) {
  // With a port, or without: `localhost:8377`, `[::1]`.
  std::string_view name = host;
  if (name.starts_with('[')) {
    const std::size_t end = name.find(']');
    if (end == std::string_view::npos) return false;
    name = name.substr(0, end + 1);
  } else {
    name = name.substr(0, name.find(':'));
  }
  if (name.starts_with("127.")) {
    // An address, and not a name that begins like one.
    return name.find_first_not_of("0123456789.") == std::string_view::npos;
  }
  constexpr std::array<std::string_view, 2> kNames = {"localhost", "[::1]"};
  return std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace sealane::cli
