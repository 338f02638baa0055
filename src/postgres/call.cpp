#include "postgres/call.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include "postgres/session_settings.hpp"
#include "postgres/sql_state.hpp"

namespace sealane::postgres {
namespace {

bool IsCopying(const PGresult* result) {
  switch (PQresultStatus(result)) {
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
      return true;
    default:
      return false;
  }
}

/// Ends the connection for both sides and lets libpq notice.
void Break(PGconn* connection) {
  ::shutdown(PQsocket(connection), SHUT_RDWR);
  while (PQstatus(connection) != CONNECTION_BAD && PQconsumeInput(connection) == 1) {
  }
}

/// Reads the results of everything that was sent, up to the mark that ends it.
void ReadResults(PGconn* connection, std::size_t count, PipelineReport& report) {
  for (std::size_t i = 0; i < count; ++i) {
    PgResult result(PQgetResult(connection));
    if (!result) {
      if (!report.error) report.error = SendError(connection);
      return;
    }
    if (IsCopying(result.get())) {
      // In a pipeline libpq has no way out of it: the same result would come for ever.
      if (!report.error) {
        report.error = Error(ErrorKind::kMisuse, "copy_in_pipeline", "a statement would copy through the connection")
                           .WithHint("write INSERT ... SELECT");
      }
      Break(connection);
      return;
    }
    if (!report.error) {
      Status status = CheckResult(connection, result.get());
      if (status) {
        report.results.push_back(std::move(result));
      } else {
        report.refused = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE) != nullptr;
        report.error = std::move(status).error();
        if (report.refused) report.refusal = std::move(result);
      }
    }
    // Every statement's results end with a null.
    while (PgResult(PQgetResult(connection))) {
    }
    if (PQstatus(connection) == CONNECTION_BAD) {
      if (!report.error) report.error = SendError(connection);
      return;
    }
  }
  const PgResult mark(PQgetResult(connection));
}

}  // namespace

Error SendError(PGconn* connection) {
  // There is no result to look at.
  const PgResult none(PQmakeEmptyPGresult(connection, PGRES_FATAL_ERROR));
  Status status = CheckResult(connection, none.get());
  SEALANE_ASSERT(!status, "a fatal result is an error");
  return std::move(status).error();
}

Call::Call(std::string_view quoted_schema, std::string_view function)
    : sql_(fmt::format("SELECT * FROM {}.{}", quoted_schema, function)), function_(true) {}

Call::Call(std::string sql, std::span<const Oid> types, BinaryCall parameters)
    : sql_(std::move(sql)),
      types_(types.begin(), types.end()),
      buffers_(std::move(parameters.buffers)),
      nulls_(std::move(parameters.nulls)) {
  SEALANE_ASSERT(types_.size() == buffers_.size(), "every parameter has a type");
}

Call& Call::Int4(std::optional<std::int32_t> value) {
  return Put(kInt4, value ? BigEndian(*value) : std::string(), !value);
}

Call& Call::Int8(std::optional<std::int64_t> value) {
  return Put(kInt8, value ? BigEndian(*value) : std::string(), !value);
}

Call& Call::Bool(bool value) {
  return Put(kBool, std::string(1, value ? '\1' : '\0'), false);
}

Call& Call::Time(Timestamp value) {
  return Put(kTimestamptz, BinaryTime(value), false);
}

Call& Call::Put(Oid type, std::string bytes, bool null) {
  types_.push_back(type);
  buffers_.push_back(std::move(bytes));
  nulls_.push_back(null);
  return *this;
}

std::string Call::EmptyArray(Oid element) {
  return BigEndian(std::int32_t{0}) + BigEndian(std::int32_t{0}) + BigEndian(static_cast<std::uint32_t>(element));
}

std::string Call::Sql() const {
  if (!function_) return sql_;
  std::string text = sql_ + "(";
  for (std::size_t i = 1; i <= types_.size(); ++i) text += fmt::format("{}${}", i == 1 ? "" : ",", i);
  return text + ")";
}

Call::Pointers Call::Point() const {
  Pointers pointers;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    pointers.values.push_back(nulls_[i] ? nullptr : buffers_[i].data());
    pointers.lengths.push_back(static_cast<int>(buffers_[i].size()));
    pointers.formats.push_back(1);
  }
  return pointers;
}

Status Call::Send(PGconn* connection) const {
  const Pointers pointers = Point();
  if (PQsendQueryParams(connection, Sql().c_str(), static_cast<int>(types_.size()), types_.data(),
                        pointers.values.data(), pointers.lengths.data(), pointers.formats.data(), 0) != 1) {
    return SendError(connection);
  }
  return Ok();
}

Result<PgResult> Call::Run(PGconn* connection) const {
  const Pointers pointers = Point();
  PgResult result(RunParams(connection, Sql(), static_cast<int>(types_.size()), types_.data(), pointers.values.data(),
                            pointers.lengths.data(), pointers.formats.data(), 0));
  SEALANE_RETURN_IF_ERROR(CheckResult(connection, result.get()));
  return result;
}

PipelineReport RunTogether(PGconn* connection, std::span<const Call> calls) {
  PipelineReport report;
  // Of a pooled connection; right behind the call that begins the transaction.
  const std::string* const settings = PendingSettings(connection);
  const std::size_t settings_at = !calls.empty() && BeginsTransaction(calls.front().Sql()) ? 1 : 0;
  if (PQenterPipelineMode(connection) != 1) {
    report.error = SendError(connection);
    return report;
  }
  std::size_t sent = 0;
  std::optional<Error> unsent;
  const auto send = [&](const Call& call) {
    if (Status status = call.Send(connection); !status) unsent = std::move(status).error();
    if (!unsent) ++sent;
    return !unsent;
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (settings != nullptr && i == settings_at && !send(Call(*settings))) break;
    if (!send(calls[i])) break;
  }
  report = EndPipeline(connection, sent);
  if (settings != nullptr && report.results.size() > settings_at) {
    report.results.erase(report.results.begin() + static_cast<std::ptrdiff_t>(settings_at));
  }
  if (unsent && !report.error) report.error = std::move(unsent);
  return report;
}

PipelineReport EndPipeline(PGconn* connection, std::size_t sent) {
  PipelineReport report;
  if (PQpipelineSync(connection) == 1) {
    ReadResults(connection, sent, report);
  } else {
    report.error = SendError(connection);
  }
  // Refused only while results are outstanding, which is the case only when the connection is broken.
  PQexitPipelineMode(connection);
  return report;
}

}  // namespace sealane::postgres
