// The program that atomicity_test kills: one business transaction with its event, from the business write to the
// commit.
//
//   append_victim postgres URL ORDER DEADLY before|after
//   append_victim sqlite PATH ORDER DEADLY before|after
//
// Prints how many counted calls the transaction makes when it survives.

#include <cstdio>
#include <cstdlib>
#include <string>

#include <libpq-fe.h>
#include <sqlite3.h>

#include "sealane/outbox.hpp"

#include "process/kill_switch.hpp"

namespace {

using namespace sealane;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "append_victim: %s\n", what.c_str());
  std::exit(3);
}

Event OrderEvent(const std::string& order) {
  return {.topic = "orders", .key = order, .type = "OrderPlaced", .payload = "{\"order\":" + order + "}"};
}

void Pg(PGconn* connection, const std::string& sql) {
  PGresult* const result = PQexec(connection, sql.c_str());
  if (PQresultStatus(result) != PGRES_COMMAND_OK) Fail(PQerrorMessage(connection));
  PQclear(result);
}

long OnPostgres(const std::string& url, const std::string& order, long deadly, bool before) {
  PGconn* const connection = PQconnectdb(url.c_str());
  if (PQstatus(connection) != CONNECTION_OK) Fail(PQerrorMessage(connection));
  const Outbox outbox;
  testing::ArmKillSwitch(deadly, before);
  Pg(connection, "BEGIN");
  Pg(connection, "INSERT INTO orders VALUES (" + order + ")");
  if (const auto appended = outbox.Append(connection, OrderEvent(order)); !appended)
    Fail(appended.error().ToString());
  Pg(connection, "UPDATE orders SET id = id WHERE id = " + order);
  Pg(connection, "COMMIT");
  const long seen = testing::DisarmKillSwitch();
  PQfinish(connection);
  return seen;
}

void Lite(sqlite3* connection, const std::string& sql) {
  if (sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) Fail(sqlite3_errmsg(connection));
}

long OnSqlite(const std::string& path, const std::string& order, long deadly, bool before) {
  sqlite3* connection = nullptr;
  if (sqlite3_open(path.c_str(), &connection) != SQLITE_OK) Fail(sqlite3_errmsg(connection));
  Lite(connection, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000");
  const Outbox outbox;
  testing::ArmKillSwitch(deadly, before);
  Lite(connection, "BEGIN IMMEDIATE");
  Lite(connection, "INSERT INTO orders VALUES (" + order + ")");
  if (const auto appended = outbox.Append(connection, OrderEvent(order)); !appended)
    Fail(appended.error().ToString());
  Lite(connection, "UPDATE orders SET id = id WHERE id = " + order);
  Lite(connection, "COMMIT");
  // The checkpoint that closing runs writes too, and may die too.
  sqlite3_close(connection);
  return testing::DisarmKillSwitch();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) Fail("usage: append_victim postgres|sqlite TARGET ORDER DEADLY before|after");
  const std::string store = argv[1];
  const bool before = std::string(argv[5]) == "before";
  const long seen = store == "postgres" ? OnPostgres(argv[2], argv[3], std::atol(argv[4]), before)
                                        : OnSqlite(argv[2], argv[3], std::atol(argv[4]), before);
  std::printf("%ld\n", seen);
  return 0;
}
