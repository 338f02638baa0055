#include "common/session.hpp"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

namespace sealane::bench {
namespace {

std::mutex databases_mutex;
std::map<std::string, std::string> databases;  // the cluster of each name

}  // namespace

void Fail(std::string_view what) {
  std::fprintf(stderr, "%s: %.*s\n", program_invocation_short_name, static_cast<int>(what.size()), what.data());
  std::exit(1);
}

Session::Session(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
  if (PQstatus(connection_) != CONNECTION_OK) Fail(PQerrorMessage(connection_));
}

Session::~Session() {
  PQfinish(connection_);
}

std::string Session::Exec(const std::string& sql) const {
  const PgResult result = Checked(PQexec(connection_, sql.c_str()));
  return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
}

double Session::Number(const std::string& sql) const {
  const std::string text = Exec(sql);
  return text.empty() ? 0 : std::stod(text);
}

PgResult Session::Checked(PGresult* result) const {
  PgResult owned(result);
  switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_SINGLE_TUPLE:
    case PGRES_COPY_OUT:
      return owned;
    default:
      Fail(PQerrorMessage(connection_));
  }
}

Database::Database(const std::string& cluster_url, const std::string& name)
    : cluster_url_(cluster_url), name_(name), url_(cluster_url) {
  Session(cluster_url).Exec("create database " + name);
  {
    const std::lock_guard lock(databases_mutex);
    databases.emplace(name, cluster_url);
  }
  url_.replace(url_.rfind('/') + 1, std::string::npos, name);
}

Database::~Database() {
  Session(cluster_url_).Exec("drop database " + name_ + " with (force)");
  const std::lock_guard lock(databases_mutex);
  databases.erase(name_);
}

void Database::DropAll() {
  const std::lock_guard lock(databases_mutex);
  for (const auto& [name, cluster_url] : databases) {
    PGconn* const connection = PQconnectdb(cluster_url.c_str());
    PQclear(PQexec(connection, ("drop database if exists " + name + " with (force)").c_str()));
    PQfinish(connection);
  }
  databases.clear();
}

Writes::Writes(const Session& session, std::string schema)
    : session_(session),
      schema_(std::move(schema)),
      lsn_(session.Exec("select pg_current_wal_insert_lsn()")),
      dead_rows_(DeadRows()) {}

double Writes::wal_bytes() const {
  return session_.Number(fmt::format("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{}')", lsn_));
}

double Writes::dead_rows() const {
  // A session reports when it ends, and its process may outlive the connection for a moment.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (session_.Number("select count(*) from pg_stat_activity where datname = current_database()"
                         " and backend_type = 'client backend' and pid <> pg_backend_pid()") > 0 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return DeadRows() - dead_rows_;
}

double Writes::DeadRows() const {
  // Not n_dead_tup, which autovacuum brings back to zero at a moment of its choice.
  session_.Exec("select pg_stat_clear_snapshot()");
  return session_.Number(fmt::format(
      "select coalesce(sum(n_tup_upd + n_tup_del), 0) from pg_stat_user_tables where schemaname = '{}'", schema_));
}

}  // namespace sealane::bench
