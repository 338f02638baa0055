#include "postgres/session_settings.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <libpq-events.h>

#include "postgres/connection.hpp"
#include "postgres/sql_state.hpp"

namespace sealane::postgres {
namespace {

/// What is remembered of a pooled connection, for as long as the connection lives.
struct PooledSession {
  std::vector<std::pair<std::string, std::string>> settings = {};
  std::string statement = {};
};

int OnEvent(PGEventId id, void* info, void* /*unused*/);

PooledSession* SessionOf(const PGconn* connection) {
  return static_cast<PooledSession*>(PQinstanceData(connection, OnEvent));
}

int OnEvent(PGEventId id, void* info, void* /*unused*/) {
  if (id == PGEVT_CONNDESTROY) {
    const std::unique_ptr<PooledSession> gone(SessionOf(static_cast<PGEventConnDestroy*>(info)->conn));
  }
  return 1;
}

/// Names and values are ours or numbers of the configuration; quoted all the same.
std::string Literal(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted.append(c == '\'' ? 2 : 1, c);
  return quoted + "'";
}

std::string SetConfig(std::string_view name, std::string_view value, bool local) {
  return fmt::format("set_config({}, {}, {})", Literal(name), Literal(value), local);
}

void Remember(PooledSession& session, std::span<const Setting> settings) {
  for (const Setting& setting : settings) {
    const auto known = std::ranges::find(session.settings, setting.name, [](const auto& s) { return s.first; });
    if (known != session.settings.end()) {
      known->second = setting.value;
    } else {
      session.settings.emplace_back(setting.name, setting.value);
    }
  }
  session.statement = "select ";
  for (const auto& [name, value] : session.settings) {
    if (&name != &session.settings.front().first) session.statement += ", ";
    session.statement += SetConfig(name, value, true);
  }
}

Status BecomePooled(PGconn* connection, std::span<const Setting> settings) {
  auto session = std::make_unique<PooledSession>();
  Remember(*session, settings);
  if (PQregisterEventProc(connection, OnEvent, "sealane", nullptr) == 0 ||
      PQsetInstanceData(connection, OnEvent, session.get()) == 0) {
    return Error(ErrorKind::kUnavailable, "out_of_memory", "no memory for the settings of a connection");
  }
  static_cast<void>(session.release());  // freed with the connection
  return Ok();
}

/// The answers to two statements that were sent together: the one to `wanted`, or the first error of all.
PGresult* TakeResults(PGconn* connection, int wanted) {
  PgResult answer;
  PgResult error;
  int statement = 0;
  while (PQstatus(connection) != CONNECTION_BAD || !error) {
    PgResult result(PQgetResult(connection));
    if (!result) {
      // The end of a statement's results. A broken connection has nothing else.
      ++statement;
      if (PQstatus(connection) == CONNECTION_BAD) break;
      continue;
    }
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_PIPELINE_SYNC) break;
    const bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    if (good && statement == wanted) answer = std::move(result);
    // Also what the server says when it commits at the end, after the statement itself went well.
    if (!good && !error) error = std::move(result);
  }
  return error ? error.release() : answer.release();
}

}  // namespace

Status BeginSession(PGconn* connection, bool assume_pooled, std::span<const Setting> settings) {
  if (assume_pooled) return BecomePooled(connection, settings);
  // One round trip: the settings are made for the session only where it is ours.
  std::string sql = "select pg_backend_pid() = $1::int4";
  for (const Setting& setting : settings) {
    sql += fmt::format(", case when pg_backend_pid() = $1::int4 then {} end",
                       SetConfig(setting.name, setting.value, false));
  }
  const std::array<TextParameter, 1> parameters = {std::to_string(PQbackendPID(connection))};
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, Execute(connection, sql, parameters));
  if (TextAt(result, 0, 0) == "t") return Ok();
  return BecomePooled(connection, settings);
}

Status AddSettings(PGconn* connection, std::span<const Setting> settings) {
  if (PooledSession* const session = SessionOf(connection)) {
    Remember(*session, settings);
    return Ok();
  }
  std::string sql = "select ";
  for (const Setting& setting : settings) {
    if (&setting != settings.data()) sql += ", ";
    sql += SetConfig(setting.name, setting.value, false);
  }
  SEALANE_RETURN_IF_ERROR(Execute(connection, sql));
  return Ok();
}

bool IsPooled(const PGconn* connection) {
  return SessionOf(connection) != nullptr;
}

const std::string* PendingSettings(const PGconn* connection) {
  const PooledSession* const session = SessionOf(connection);
  if (session == nullptr || PQtransactionStatus(connection) != PQTRANS_IDLE) return nullptr;
  return &session->statement;
}

bool BeginsTransaction(std::string_view sql) {
  constexpr std::string_view kBegin = "begin";
  return sql.size() >= kBegin.size() && std::ranges::equal(sql.substr(0, kBegin.size()), kBegin, {}, [](char c) {
           return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
         });
}

PGresult* RunParams(PGconn* connection, const std::string& sql, int count, const Oid* types,
                    const char* const* values, const int* lengths, const int* formats, int result_format) {
  const std::string* const settings = PendingSettings(connection);
  if (settings == nullptr) {
    return PQexecParams(connection, sql.c_str(), count, types, values, lengths, formats, result_format);
  }
  // Statements up to one synchronisation are one transaction, so the settings hold for the second and end with it,
  // also when it fails. What begins a transaction block comes first, and the settings are the first in the block.
  const bool begins = BeginsTransaction(sql);
  if (PQenterPipelineMode(connection) != 1) return nullptr;
  const auto send_settings = [&] {
    return PQsendQueryParams(connection, settings->c_str(), 0, nullptr, nullptr, nullptr, nullptr, 0) == 1;
  };
  bool sent = begins || send_settings();
  sent =
      sent && PQsendQueryParams(connection, sql.c_str(), count, types, values, lengths, formats, result_format) == 1;
  sent = sent && (!begins || send_settings());
  // Also after a statement that could not be sent: the answers to an earlier one must not wait for ever.
  if (PQpipelineSync(connection) != 1) return nullptr;
  PgResult result(TakeResults(connection, begins ? 0 : 1));
  PQexitPipelineMode(connection);
  if (!sent) result.reset(PQmakeEmptyPGresult(connection, PGRES_FATAL_ERROR));
  return result.release();
}

}  // namespace sealane::postgres
