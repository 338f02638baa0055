// Where quotes and orders move: each command is one transaction of the state, its version and its event.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sealane/outbox.hpp"
#include "sealane/versions.hpp"

#include "database.hpp"
#include "topics.hpp"

namespace {

using example::Database;
using example::Transaction;
using nlohmann::json;

constexpr const char* kUsage =
    "usage: cpq_desk STORE submit QUOTE CUSTOMER CENTS\n"
    "       cpq_desk STORE approve QUOTE\n"
    "       cpq_desk STORE accept QUOTE\n"
    "       cpq_desk STORE complete ORDER\n";

/// What is about to be committed. The version counts the changes of this quote or order under a row lock, so two
/// desks that move it at the same time come one after the other, and so do their events.
void Tell(Transaction& tx, const std::string& aggregate, const std::string& id, const std::string& type,
          const json& payload) {
  static const sealane::Outbox outbox({.producer = "cpq-desk"});
  const auto version = ValueOrThrow(sealane::NextVersion(tx, {.tenant = {}, .type = aggregate, .id = id}));
  ValueOrThrow(outbox.Append(tx, {.topic = example::TopicOf(aggregate + "s"),
                                  .key = id,
                                  .type = type,
                                  .payload = payload.dump(),
                                  .aggregate = {.type = aggregate, .id = id, .version = version},
                                  .correlation_id = id}));
}

/// Digits and nothing else: what is read as far as it makes sense would sell for 42 what was to cost 42,000.
std::int64_t ReadTotal(const std::string& cents) {
  std::int64_t total = 0;
  const auto [end, failure] = std::from_chars(cents.data(), cents.data() + cents.size(), total);
  if (failure == std::errc{} && end == cents.data() + cents.size() && total >= 0) return total;
  throw std::invalid_argument("`" + cents + "` is no total: it is a whole number of cents, 0 or more");
}

bool Submit(Database& database, const std::string& id, const std::string& customer, const std::string& cents) {
  const std::int64_t total = ReadTotal(cents);
  Transaction tx(database);
  const auto written = Execute(tx,
                               "INSERT INTO quote (id, customer, total, status) VALUES ($1, $2, $3, 'SUBMITTED')"
                               " ON CONFLICT (id) DO NOTHING",
                               {id, customer, total});
  if (written == 0) return false;
  Tell(tx, "quote", id, "QuoteSubmitted", {{"quote_id", id}, {"customer", customer}, {"total", total}});
  tx.Commit();
  return true;
}

/// From one state to the next, or not at all: the condition is in the statement, so of two desks one gets the row.
bool Move(Database& database, const std::string& aggregate, const std::string& id, const std::string& from,
          const std::string& to, const std::string& type) {
  const std::string table = aggregate == "quote" ? "quote" : "customer_order";
  Transaction tx(database);
  const auto rows =
      Query(tx, "UPDATE " + table + " SET status = $1 WHERE id = $2 AND status = $3 RETURNING customer, total",
            {to, id, from});
  if (rows.empty()) return false;
  Tell(tx, aggregate, id, type,
       {{aggregate + "_id", id}, {"customer", *rows[0][0]}, {"total", std::stoll(*rows[0][1])}});
  tx.Commit();
  return true;
}

bool Run(Database& database, const std::vector<std::string>& words) {
  const std::string& command = words[0];
  const std::string& id = words[1];
  if (command == "submit" && words.size() == 4) return Submit(database, id, words[2], words[3]);
  if (command == "approve") return Move(database, "quote", id, "SUBMITTED", "APPROVED", "QuoteApproved");
  if (command == "accept") return Move(database, "quote", id, "APPROVED", "ACCEPTED", "QuoteAccepted");
  if (command == "complete") return Move(database, "order", id, "CREATED", "COMPLETED", "OrderCompleted");
  throw std::out_of_range("no such command, or not its words");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() < 3) throw std::out_of_range("too few words");
    Database database(words[0]);
    const bool done = Run(database, {words.begin() + 1, words.end()});
    std::printf("%s: %s\n", words[2].c_str(),
                done ? "done, with its event" : "not in the state for that; nothing done");
    return done ? 0 : 1;
  } catch (const std::logic_error& misuse) {
    return std::fprintf(stderr, "cpq_desk: %s\n%s", misuse.what(), kUsage), 2;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "cpq_desk: %s\n", error.what()), 1;
  }
}
