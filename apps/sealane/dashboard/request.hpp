#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sealane/result.hpp"

namespace sealane::cli {

/// What a client asked for, taken apart.
struct DashboardRequest {
  std::string path = {};  ///< decoded
  std::map<std::string, std::string> parameters = {};

  /// Empty when it was not given, or given without a value, as a form does with fields that nobody filled in.
  std::optional<std::string> Find(std::string_view name) const;
};

/// Reads `/api/v1/messages?key=a%20b`. kRejected (`bad_request`) when it is not well-formed: an escape that is none,
/// text that is not UTF-8, a parameter that comes twice.
Result<DashboardRequest> ParseDashboardTarget(std::string_view target);

/// kRejected (`bad_parameter`) when there is a parameter that is not one of `known`.
Status CheckParameters(const DashboardRequest& request, std::span<const std::string_view> known);

/// Whether a request with this Host header was meant for a server of this machine. A page of somebody else that made
/// its own name point here, to read what only this machine may, says that name.
bool IsLoopbackHost(std::string_view host);

}  // namespace sealane::cli
