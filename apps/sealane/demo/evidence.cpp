#include "demo/evidence.hpp"

#include <charconv>

#include <fmt/format.h>

namespace sealane::demo {
namespace {

std::int64_t Int(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The inverse of Place::Named().
std::string Unnamed(const Place& place, const std::string& name) {
  const std::string prefix = place.Named("");
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

Status ReadCommitted(Database& database, const Place& place, Evidence& evidence) {
  const Dialect& sql = place.dialect();
  SEALANE_ASSIGN_OR_RETURN(const auto rows,
                           database.Query(fmt::format("SELECT seq, {}, topic, key, tenant, aggregate_version, {}, {} "
                                                      "FROM {} ORDER BY seq",
                                                      sql.Uuid("event_id"), sql.Hex("payload_hash"),
                                                      sql.Micros("appended_at"), sql.Sealane("outbox"))));
  for (const Row& row : rows) {
    evidence.committed.push_back({.seq = Int(row[0]),
                                  .id = row[1],
                                  .topic = Unnamed(place, row[2]),
                                  .key = row[3],
                                  .tenant = row[4],
                                  .version = Int(row[5]),
                                  .hash = row[6],
                                  .appended_at = Timestamp{std::chrono::microseconds{Int(row[7])}}});
  }
  return Ok();
}

Status ReadEffects(Database& database, const std::string& table, std::vector<Effect>& effects) {
  SEALANE_ASSIGN_OR_RETURN(const auto rows,
                           database.Query(fmt::format(
                               "SELECT place, event_id, order_id, version, decision FROM {} ORDER BY place", table)));
  for (const Row& row : rows) effects.push_back({Int(row[0]), row[1], row[2], Int(row[3]), row[4]});
  return Ok();
}

}  // namespace

Status ReadStore(Database& database, const Place& place, Evidence& evidence) {
  const Dialect& sql = place.dialect();
  SEALANE_RETURN_IF_ERROR(ReadCommitted(database, place, evidence));
  SEALANE_RETURN_IF_ERROR(ReadEffects(database, sql.Shop(kPayments), evidence.payments));
  SEALANE_RETURN_IF_ERROR(ReadEffects(database, sql.Shop(kApprovals), evidence.approvals));
  SEALANE_ASSIGN_OR_RETURN(const auto aside,
                           database.Query(fmt::format("SELECT consumer, {}, state FROM {} ORDER BY place",
                                                      sql.Uuid("event_id"), sql.Sealane("inbox_parked"))));
  for (const Row& row : aside) evidence.set_aside.push_back({Unnamed(place, row[0]), row[1], row[2]});
  SEALANE_ASSIGN_OR_RETURN(
      const auto balances,
      database.Query(fmt::format("SELECT o.id, o.cents, coalesce(p.cents, 0), o.changes FROM {} AS o "
                                 "LEFT JOIN {} AS p ON p.order_id = o.id ORDER BY o.id",
                                 sql.Shop("orders"), sql.Shop("paid"))));
  for (const Row& row : balances) evidence.balances.push_back({row[0], Int(row[1]), Int(row[2]), Int(row[3])});
  for (Delivered& delivery : evidence.deliveries) delivery.topic = Unnamed(place, delivery.topic);
  return Ok();
}

Result<Counts> CountStore(Database& database, const Dialect& dialect) {
  SEALANE_ASSIGN_OR_RETURN(const auto rows,
                           database.Query(fmt::format("SELECT (SELECT count(*) FROM {}), (SELECT count(*) FROM {}) + "
                                                      "(SELECT count(*) FROM {}), (SELECT count(*) FROM {})",
                                                      dialect.Sealane("outbox"), dialect.Shop(kPayments),
                                                      dialect.Shop(kApprovals), dialect.Sealane("inbox_parked"))));
  Counts counts;
  counts.committed = Int(rows.at(0).at(0));
  counts.applied = Int(rows[0].at(1));
  counts.parked = Int(rows[0].at(2));
  return counts;
}

}  // namespace sealane::demo
