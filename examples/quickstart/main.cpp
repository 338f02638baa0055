// Places two orders: the first is paid and commits together with its event, the second is not and rolls back.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <sqlite3.h>

#include "sealane/outbox.hpp"

namespace {

/// Runs one statement with at most one parameter, or ends the program.
void Run(sqlite3* db, const char* sql, const std::string& value = {}) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(db, sql, -1, &statement, nullptr);
  sqlite3_bind_text(statement, 1, value.data(), static_cast<int>(value.size()), SQLITE_STATIC);
  if (sqlite3_step(statement) != SQLITE_DONE) {
    std::fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
    std::exit(1);
  }
  sqlite3_finalize(statement);
}

void PlaceOrder(sqlite3* db, const sealane::Outbox& outbox, const std::string& id, bool paid) {
  // [append]
  const sealane::Event placed{.topic = "orders", .key = id, .type = "OrderPlaced", .payload = R"({"total":4200})"};

  Run(db, "BEGIN IMMEDIATE");
  Run(db, "INSERT INTO orders (id) VALUES (?)", id);
  const auto appended = outbox.Append(db, placed);
  if (!appended) std::fprintf(stderr, "%s\n", appended.error().ToString().c_str());
  Run(db, appended && paid ? "COMMIT" : "ROLLBACK");
  // [/append]
  std::printf("order %s: %s\n", id.c_str(), appended && paid ? "committed, with its event" : "rolled back");
}

}  // namespace

int main(int argc, char** argv) {
  sqlite3* db = nullptr;
  if (argc != 2 || sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK) {
    std::fprintf(stderr, "usage: quickstart FILE   (made by: sealane migrate up --store sqlite:FILE)\n");
    return 2;
  }
  sqlite3_busy_timeout(db, 5'000);  // a relay writes to the same file
  Run(db, "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY)");
  const sealane::Outbox outbox({.producer = "shop"});
  PlaceOrder(db, outbox, "o-1", true);
  PlaceOrder(db, outbox, "o-2", false);
  sqlite3_close(db);
}
