#include "postgres/connection.hpp"

#include <array>
#include <charconv>

#include <fmt/format.h>
#include <poll.h>

#include "base/text.hpp"
#include "postgres/session_settings.hpp"
#include "postgres/sql_state.hpp"

namespace sealane::postgres {
namespace {

constexpr std::size_t kSchemaNameMax = 40;  // leaves room for "_operator" within PostgreSQL's 63 bytes

Error ConnectionError(PGconn* connection, const Options& options) {
  std::string text = connection != nullptr ? PQerrorMessage(connection) : "out of memory";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return ErrorFromConnect(text, connection != nullptr && PQconnectionNeedsPassword(connection) != 0,
                          RedactUrl(options.url));
}

/// Waits for the socket, at most until the deadline.
bool WaitFor(PGconn* connection, PostgresPollingStatusType want, BootTime deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SystemClock::Instance().SinceBoot());
  if (left.count() <= 0) return false;
  pollfd descriptor{PQsocket(connection), static_cast<short>(want == PGRES_POLLING_READING ? POLLIN : POLLOUT), 0};
  return poll(&descriptor, 1, static_cast<int>(left.count())) > 0;
}

}  // namespace

Result<std::string> QuoteSchema(std::string_view schema) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  bool good = !schema.empty() && schema.size() <= kSchemaNameMax && !(schema[0] >= '0' && schema[0] <= '9') &&
              !schema.starts_with("pg_");
  for (const char c : schema) good = good && allowed(c);
  if (!good) {
    return Error(ErrorKind::kMisconfigured, "invalid_schema_name",
                 fmt::format("\"{}\" cannot be a schema name", EscapeForTerminal(schema)))
        .WithField("store.schema")
        .WithHint("use lower-case letters, digits and _, at most 40, not starting with a digit or pg_");
  }
  return fmt::format("\"{}\"", schema);
}

/// libpq's own words about a URL it cannot read quote it, password included, so they are not passed on.
Status CheckUrl(const Options& options) {
  char* words = nullptr;
  PQconninfoOption* const parsed = PQconninfoParse(options.url.c_str(), &words);
  PQfreemem(words);
  if (parsed == nullptr) {
    return Error(ErrorKind::kMisconfigured, "invalid_store_url",
                 fmt::format("{} is not a URL that PostgreSQL understands", RedactUrl(options.url)))
        .WithField("store.url")
        .WithHint("write it as postgres://user@host:5432/database; escape special characters of a password as %XX");
  }
  PQconninfoFree(parsed);
  return Ok();
}

Result<Connection> Connection::Open(const Options& options) {
  SEALANE_RETURN_IF_ERROR(QuoteSchema(options.schema));
  SEALANE_RETURN_IF_ERROR(CheckUrl(options));
  // A URL may name an application itself; ours is only the fallback. Dead peers are noticed by the kernel.
  const std::array<const char*, 9> keywords = {"dbname",
                                               "fallback_application_name",
                                               "client_encoding",
                                               "keepalives_idle",
                                               "keepalives_interval",
                                               "keepalives_count",
                                               "tcp_user_timeout",
                                               options.password.empty() ? nullptr : "password",
                                               nullptr};
  const std::string user_timeout = std::to_string(options.statement_timeout.count() + 5'000);
  const std::array<const char*, 9> values = {
      options.url.c_str(),  options.application_name.c_str(), "UTF8", "10", "5", "3",
      user_timeout.c_str(), options.password.c_str(),         nullptr};
  Connection connection(PQconnectStartParams(keywords.data(), values.data(), 1));
  PGconn* const handle = connection.get();
  if (handle == nullptr || PQstatus(handle) == CONNECTION_BAD) return ConnectionError(handle, options);

  const BootTime deadline = SystemClock::Instance().SinceBoot() + options.connect_timeout;
  PostgresPollingStatusType want = PGRES_POLLING_WRITING;
  while (want != PGRES_POLLING_OK) {
    if (want == PGRES_POLLING_FAILED) return ConnectionError(handle, options);
    if (!WaitFor(handle, want, deadline)) {
      return Error(ErrorKind::kUnavailable, "store_unreachable",
                   fmt::format("{} did not answer within {} ms", RedactUrl(options.url),
                               options.connect_timeout.count()))
          .WithHint("is the host right, and is a firewall in between? store.connect_timeout sets how long to wait");
    }
    want = PQconnectPoll(handle);
  }
  // Statements here are short. What the server expects of partitions without statistics is so much that it would
  // compile some of them first, for up to a second each time.
  const std::array<Setting, 4> settings = {
      Setting{"statement_timeout", std::to_string(options.statement_timeout.count())},
      {"TimeZone", "UTC"},
      {"jit", "off"},
      {"standard_conforming_strings", "on"}};
  SEALANE_RETURN_IF_ERROR(BeginSession(handle, options.pooled, settings));
  return connection;
}

Result<PgResult> Execute(PGconn* connection, const std::string& sql, std::span<const TextParameter> parameters) {
  std::vector<const char*> values;
  values.reserve(parameters.size());
  for (const TextParameter& parameter : parameters) values.push_back(parameter ? parameter->c_str() : nullptr);
  PgResult result(
      RunParams(connection, sql, static_cast<int>(values.size()), nullptr, values.data(), nullptr, nullptr, 0));
  SEALANE_RETURN_IF_ERROR(CheckResult(connection, result.get()));
  return result;
}

std::string_view TextAt(const PgResult& result, int row, int column) {
  return {PQgetvalue(result.get(), row, column), static_cast<std::size_t>(PQgetlength(result.get(), row, column))};
}

bool IsNull(const PgResult& result, int row, int column) {
  return PQgetisnull(result.get(), row, column) != 0;
}

std::int64_t IntAt(const PgResult& result, int row, int column) {
  const std::string_view text = TextAt(result, row, column);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  SEALANE_ASSERT(error == std::errc{} && end == text.data() + text.size(), "an integer column holds an integer");
  return value;
}

std::string BytesAt(const PgResult& result, int row, int column) {
  std::size_t size = 0;
  unsigned char* const bytes =
      PQunescapeBytea(reinterpret_cast<const unsigned char*>(PQgetvalue(result.get(), row, column)), &size);
  SEALANE_ASSERT(bytes != nullptr, "memory for one payload is there");
  std::string copy(reinterpret_cast<const char*>(bytes), size);
  PQfreemem(bytes);
  return copy;
}

Timestamp TimeAt(const PgResult& result, int row, int column) {
  return Timestamp{std::chrono::microseconds{IntAt(result, row, column)}};
}

}  // namespace sealane::postgres
