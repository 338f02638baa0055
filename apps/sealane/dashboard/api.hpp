#pragma once

#include "dashboard/desks.hpp"
#include "dashboard/request.hpp"
#include "serve/http_server.hpp"

namespace sealane::cli {

/// Answers everything below /api/v1/ that takes a look at the store: docs/dashboard.md has the documents. No payload,
/// request or answer of anybody is in them, and none is longer than kRowsMax rows.
HttpAnswer AnswerDashboardApi(const DashboardRequest& request, Desks& desks);

/// Whether there is such a resource.
bool IsDashboardApi(std::string_view path);

/// An error as a client gets it: the status that its kind asks for, and `{"error":...}`.
HttpAnswer AnswerError(const Error& error);

inline constexpr std::int64_t kRowsMax = 200;

}  // namespace sealane::cli
