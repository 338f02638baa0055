// Places an order and its event in one transaction of a SQLite file.
#include <cstdio>

#include <sealane/outbox.hpp>
#include <sqlite3.h>

int main(int argc, char** argv) {
  sqlite3* db = nullptr;
  if (argc != 2 || sqlite3_open(argv[1], &db) != SQLITE_OK) return 2;
  const sealane::Outbox outbox({.producer = "shop"});
  sqlite3_exec(db, "BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS orders (id TEXT)", nullptr, nullptr, nullptr);
  sqlite3_exec(db, "INSERT INTO orders VALUES ('o-1')", nullptr, nullptr, nullptr);
  const auto placed = outbox.Append(db, {.topic = "orders", .key = "o-1", .type = "OrderPlaced", .payload = "{}"});
  sqlite3_exec(db, placed ? "COMMIT" : "ROLLBACK", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  if (!placed) return std::fprintf(stderr, "%s\n", placed.error().ToString().c_str()), 1;
  std::puts("order o-1 is placed");
}
