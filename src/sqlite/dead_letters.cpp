#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ops/operator_action.hpp"
#include "sqlite/audit.hpp"
#include "sqlite/conditions.hpp"
#include "sqlite/migrated_connection.hpp"
#include "sqlite/sqlite_store.hpp"
#include "sqlite/statement.hpp"
#include "sqlite/write_transaction.hpp"

namespace sealane::sqlite {
namespace {

Conditions ConditionsOf(const DeadLetterFilter& filter) {
  Conditions conditions;
  conditions.AddIf("p.route = ?", filter.route);
  conditions.AddIf("p.tenant = ?", filter.tenant);
  conditions.AddIf("p.topic = ?", filter.topic);
  conditions.AddIf("p.key = ?", filter.key);
  conditions.AddIf("p.error_code = ?", filter.error_code);
  if (filter.state) {
    conditions.Add("p.state = ?", std::string(ToString(*filter.state)));
  } else {
    conditions.AddFixed("p.state IN ('FAILED', 'DEAD')");
  }
  return conditions;
}

Conditions ConditionsOf(const EventId& id, const std::optional<std::string>& route) {
  Conditions conditions;
  conditions.Add("p.event_id = ?", id.ToString());
  conditions.AddIf("p.route = ?", route);
  return conditions;
}

/// What an operator can do to a parked event: which states allow it, and what it writes.
struct Change {
  std::string_view action;
  std::string_view applies_to;
  std::string set;
};
const Change& RetryChange() {
  static const Change change{
      "dead.retry", "p.state IN ('FAILED', 'DEAD')",
      fmt::format("state = 'FAILED', attempts = 0, next_attempt_at = {}, skipped = 0", kNowSql)};
  return change;
}
const Change& DiscardChange() {
  static const Change change{"dead.discard", "p.state <> 'DISCARDED'", "state = 'DISCARDED', next_attempt_at = NULL"};
  return change;
}
const Change& SkipChange() {
  static const Change change{"dead.skip", "p.state = 'DEAD' AND p.skipped = 0", "skipped = 1"};
  return change;
}

Result<DeadLetter> ReadLetter(const Statement& statement) {
  RowReader row(statement);
  DeadLetter letter;
  letter.route = row.Text();
  letter.seq = row.Int();
  const std::string id = row.Text();
  const auto parsed = EventId::Parse(id);
  letter.unit = row.Text();
  letter.tenant = row.Text();
  letter.topic = row.Text();
  letter.key = row.Text();
  letter.type = row.Text();
  const auto state = ParseParkedState(row.Text());
  if (!parsed || !state) {
    return Error(ErrorKind::kCorrupt, "store_corrupt",
                 fmt::format("seq {} is set aside with an id or a state that is none", letter.seq))
        .WithHint("look at the row in sealane_parked");
  }
  letter.id = *parsed;
  letter.state = *state;
  letter.skipped = row.Int() != 0;
  letter.attempts = static_cast<std::int32_t>(row.Int());
  letter.next_attempt_at = row.OptionalTime();
  letter.first_failed_at = row.OptionalTime();
  letter.last_failed_at = row.OptionalTime();
  letter.error_code = row.Text();
  letter.error_message = row.Text();
  letter.followers = row.Int();
  return letter;
}

class SqliteDeadLetters final : public DeadLetters {
 public:
  explicit SqliteDeadLetters(Connection connection) : connection_(std::move(connection)) {}

  Result<std::vector<DeadLetter>> List(const DeadLetterFilter& filter) override {
    return Select(ConditionsOf(filter), std::clamp<std::size_t>(filter.limit, 1, kDeadLettersMax));
  }
  Result<std::vector<DeadLetter>> Find(const EventId& id) override {
    return Select(ConditionsOf(id, std::nullopt), kDeadLettersMax);
  }

  Result<std::int64_t> Retry(const DeadLetterFilter& which, const OperatorAction& why) override {
    return Apply(RetryChange(), ConditionsOf(which), std::clamp<std::size_t>(which.limit, 1, kDeadLettersMax), why);
  }
  Result<std::int64_t> Retry(const EventId& id, std::optional<std::string> route,
                             const OperatorAction& why) override {
    return Apply(RetryChange(), ConditionsOf(id, route), kDeadLettersMax, why);
  }
  Result<std::int64_t> Discard(const EventId& id, std::optional<std::string> route,
                               const OperatorAction& why) override {
    return Apply(DiscardChange(), ConditionsOf(id, route), kDeadLettersMax, why,
                 [&] { return ParkDelayed(id, route); });
  }
  Result<std::int64_t> Skip(const EventId& id, std::optional<std::string> route, const OperatorAction& why) override {
    return Apply(SkipChange(), ConditionsOf(id, route), kDeadLettersMax, why);
  }

  Result<std::int64_t> CountReroute(const RerouteRequest& request) override;
  Result<std::int64_t> Reroute(const RerouteRequest& request, const OperatorAction& why) override;
  Result<std::vector<TenantRule>> Tenants(const std::string& route) override;
  Status SetTenant(const std::string& route, const TenantRule& rule, const OperatorAction& why) override;
  Status SetPaused(const std::string& route, bool paused, const OperatorAction& why) override;
  Result<std::vector<AuditRecord>> Audit(std::size_t limit) override;

 private:
  Result<std::vector<DeadLetter>> Select(const Conditions& conditions, std::size_t limit);
  Result<std::int64_t> Apply(const Change& change, const Conditions& conditions, std::size_t limit,
                             const OperatorAction& why, const std::function<Status()>& before = {});
  /// An event that waits for its time is given up like one that is parked.
  Status ParkDelayed(const EventId& id, const std::optional<std::string>& route);
  Status Record(std::string_view action, std::string_view target, const OperatorAction& why);
  Status RequireRoute(const std::string& route);

  Connection connection_;
};

Result<std::vector<DeadLetter>> SqliteDeadLetters::Select(const Conditions& conditions, std::size_t limit) {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  // Nobody waits behind an event that was given up or skipped.
  const std::string sql = fmt::format(
      "SELECT p.route, p.seq, p.event_id, p.unit, p.tenant, p.topic, p.key,"
      " (SELECT o.type FROM sealane_outbox o WHERE o.seq = p.seq), p.state, p.skipped, p.attempts, p.next_attempt_at,"
      " p.first_failed_at, p.last_failed_at, p.error_code, p.error_message,"
      " CASE WHEN p.state = 'DISCARDED' OR p.skipped THEN 0 ELSE"
      " (SELECT count(*) FROM sealane_parked f WHERE f.route = p.route AND f.unit = p.unit AND f.seq > p.seq"
      " AND f.state <> 'DISCARDED' AND f.skipped = 0) END"
      " FROM sealane_parked p WHERE 1{} ORDER BY p.first_failed_at IS NULL, p.first_failed_at, p.seq, p.route LIMIT "
      "?",
      conditions.sql());
  SEALANE_ASSIGN_OR_RETURN(Statement select, Statement::Prepare(connection_.get(), sql));
  conditions.BindTo(select);
  select.Bind(static_cast<std::int64_t>(limit));
  std::vector<DeadLetter> letters;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return letters;
    SEALANE_ASSIGN_OR_RETURN(DeadLetter letter, ReadLetter(select));
    letters.push_back(std::move(letter));
  }
}

Result<std::int64_t> SqliteDeadLetters::Apply(const Change& change, const Conditions& conditions, std::size_t limit,
                                              const OperatorAction& why, const std::function<Status()>& before) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  if (before) SEALANE_RETURN_IF_ERROR(before());
  Conditions allowed = conditions;
  allowed.AddFixed(change.applies_to);
  SEALANE_ASSIGN_OR_RETURN(const std::vector<DeadLetter> letters, Select(allowed, limit));
  SEALANE_ASSIGN_OR_RETURN(
      Statement update,
      Statement::Prepare(connection_.get(),
                         fmt::format("UPDATE sealane_parked SET {} WHERE route = ? AND seq = ?", change.set)));
  for (const DeadLetter& letter : letters) {
    update.Bind(letter.route).Bind(letter.seq);
    SEALANE_RETURN_IF_ERROR(update.Run());
    SEALANE_RETURN_IF_ERROR(Record(change.action, AuditTarget(letter.id.ToString(), letter.route), why));
  }
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return static_cast<std::int64_t>(letters.size());
}

Status SqliteDeadLetters::ParkDelayed(const EventId& id, const std::optional<std::string>& route) {
  for (const std::string_view sql :
       {"INSERT INTO sealane_parked (route, seq, event_id, unit, tenant, topic, key, state)"
        " SELECT d.route, o.seq, o.event_id, o.topic || '/' || o.key, o.tenant, o.topic, o.key, 'WAITING'"
        " FROM sealane_outbox o JOIN sealane_delayed d ON d.seq = o.seq"
        " WHERE o.event_id = ?1 AND (?2 IS NULL OR d.route = ?2) ON CONFLICT DO NOTHING",
        "DELETE FROM sealane_delayed WHERE (?2 IS NULL OR route = ?2)"
        " AND seq IN (SELECT seq FROM sealane_outbox WHERE event_id = ?1)"}) {
    SEALANE_ASSIGN_OR_RETURN(Statement move, Statement::Prepare(connection_.get(), sql));
    SEALANE_RETURN_IF_ERROR(move.Bind(id.ToString()).BindOptional(route).Run());
  }
  return Ok();
}

// The rows, by route (?1, null: every one), topic (?2) and limit (?3).
std::string_view RowsToReroute(bool waiting) {
  if (waiting) {
    return "SELECT p.route, p.seq, p.event_id, p.topic FROM sealane_parked p WHERE (?1 IS NULL OR p.route = ?1)"
           " AND p.waits_for = ?2 AND p.waits_for IS NOT NULL AND p.state = 'WAITING' ORDER BY p.seq, p.route LIMIT "
           "?3";
  }
  return "SELECT p.route, p.seq, p.event_id, p.topic FROM sealane_parked p"
         " JOIN (SELECT d.route, d.unit, min(d.seq) FROM sealane_parked d WHERE (?1 IS NULL OR d.route = ?1)"
         " AND d.topic = ?2 AND d.state = 'DEAD' GROUP BY d.route, d.unit ORDER BY 3 LIMIT ?3) u"
         " ON p.route = u.route AND p.unit = u.unit"
         " WHERE p.topic = ?2 AND p.state <> 'DISCARDED' AND p.waits_for IS NULL ORDER BY p.seq, p.route";
}

Result<std::int64_t> SqliteDeadLetters::CountReroute(const RerouteRequest& request) {
  SEALANE_RETURN_IF_ERROR(CheckReroute(request));
  SEALANE_ASSIGN_OR_RETURN(
      Statement select, Statement::Prepare(connection_.get(),
                                           fmt::format("SELECT count(*) FROM ({})", RowsToReroute(request.waiting))));
  select.BindOptional(request.route).Bind(request.topic).Bind(std::int64_t{-1});
  SEALANE_RETURN_IF_ERROR(select.Step());
  return select.Int(0);
}

Result<std::int64_t> SqliteDeadLetters::Reroute(const RerouteRequest& request, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(CheckReroute(request));
  struct Row {
    std::string route;
    std::int64_t seq;
    std::string id;
    std::string topic;
  };
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  std::vector<Row> rows;
  {
    SEALANE_ASSIGN_OR_RETURN(Statement select,
                             Statement::Prepare(connection_.get(), std::string(RowsToReroute(request.waiting))));
    select.BindOptional(request.route).Bind(request.topic).Bind(static_cast<std::int64_t>(request.limit));
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) break;
      rows.push_back({select.Text(0), select.Int(1), select.Text(2), select.Text(3)});
    }
  }
  const std::string set = request.waiting
                              ? std::string("waits_for = ?1")
                              : fmt::format(
                                    "next_attempt_at = CASE WHEN state = 'WAITING' THEN next_attempt_at ELSE {} END,"
                                    " state = CASE WHEN state = 'DEAD' THEN 'FAILED' ELSE state END, skipped = 0,"
                                    " attempts = 0",
                                    kNowSql);
  SEALANE_ASSIGN_OR_RETURN(
      Statement update,
      Statement::Prepare(
          connection_.get(),
          fmt::format("UPDATE sealane_parked SET {}, destination = ?1, error_code = NULL, error_message = NULL,"
                      " unit = CASE WHEN unit = ?2 || '/' || key THEN ?1 || '/' || key ELSE unit END"
                      " WHERE route = ?3 AND seq = ?4",
                      set)));
  SEALANE_ASSIGN_OR_RETURN(
      Statement keep,
      Statement::Prepare(
          connection_.get(),
          "INSERT INTO sealane_rerouted (route, seq, event_id, topic_from, topic) VALUES (?, ?, ?, ?, ?)"
          " ON CONFLICT DO UPDATE SET topic = excluded.topic, at = excluded.at"));
  std::map<std::string, std::int64_t> counts;
  for (const Row& row : rows) {
    SEALANE_RETURN_IF_ERROR(update.Bind(request.to).Bind(request.topic).Bind(row.route).Bind(row.seq).Run());
    SEALANE_RETURN_IF_ERROR(keep.Bind(row.route).Bind(row.seq).Bind(row.id).Bind(row.topic).Bind(request.to).Run());
    ++counts[row.route];
  }
  for (const auto& [route, count] : counts) {
    SEALANE_RETURN_IF_ERROR(Record(
        AuditAction(request),
        AuditTarget(fmt::format("{} events of topic {} to {}", count, request.topic, request.to), route), why));
  }
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return static_cast<std::int64_t>(rows.size());
}

Status SqliteDeadLetters::Record(std::string_view action, std::string_view target, const OperatorAction& why) {
  return NoteAudit(connection_.get(), action, std::string(target), why);
}

Status SqliteDeadLetters::RequireRoute(const std::string& route) {
  SEALANE_ASSIGN_OR_RETURN(Statement select,
                           Statement::Prepare(connection_.get(), "SELECT 1 FROM sealane_route WHERE name = ?"));
  select.Bind(route);
  SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
  if (found) return Ok();
  return UnknownRoute(route);
}

Result<std::vector<TenantRule>> SqliteDeadLetters::Tenants(const std::string& route) {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(Statement select,
                           Statement::Prepare(connection_.get(),
                                              "SELECT tenant, paused, rate_max, weight FROM sealane_tenant_rule"
                                              " WHERE route = ? ORDER BY tenant"));
  select.Bind(route);
  std::vector<TenantRule> rules;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) break;
    RowReader row(select);
    TenantRule& rule = rules.emplace_back();
    rule.tenant = row.Text();
    rule.paused = row.Int() != 0;
    rule.rate_max = row.Int();
    rule.weight = static_cast<std::int32_t>(row.Int());
  }
  if (rules.empty()) SEALANE_RETURN_IF_ERROR(RequireRoute(route));
  return rules;
}

Status SqliteDeadLetters::SetTenant(const std::string& route, const TenantRule& rule, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(CheckRule(rule));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(const std::vector<TenantRule> rules, Tenants(route));
  const auto before = std::ranges::find(rules, rule.tenant, &TenantRule::tenant);
  SEALANE_ASSIGN_OR_RETURN(
      Statement upsert,
      Statement::Prepare(connection_.get(),
                         "INSERT INTO sealane_tenant_rule (route, tenant, paused, rate_max, weight)"
                         " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET paused = excluded.paused,"
                         " rate_max = excluded.rate_max, weight = excluded.weight"));
  upsert.Bind(route).Bind(rule.tenant).Bind(std::int64_t{rule.paused}).Bind(rule.rate_max);
  upsert.Bind(std::int64_t{rule.weight});
  SEALANE_RETURN_IF_ERROR(upsert.Run());
  const std::string_view action = AuditAction(before == rules.end() ? TenantRule{} : *before, rule);
  SEALANE_RETURN_IF_ERROR(Record(action, AuditTarget(rule.tenant, route), why));
  return transaction.Commit();
}

Status SqliteDeadLetters::SetPaused(const std::string& route, bool paused, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_RETURN_IF_ERROR(RequireRoute(route));
  SEALANE_ASSIGN_OR_RETURN(
      Statement update, Statement::Prepare(connection_.get(), "UPDATE sealane_route SET paused = ? WHERE name = ?"));
  update.Bind(std::int64_t{paused}).Bind(route);
  SEALANE_RETURN_IF_ERROR(update.Run());
  SEALANE_RETURN_IF_ERROR(Record(paused ? "route.pause" : "route.resume", route, why));
  return transaction.Commit();
}

Result<std::vector<AuditRecord>> SqliteDeadLetters::Audit(std::size_t limit) {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(
      Statement select, Statement::Prepare(connection_.get(),
                                           "SELECT id, at, actor, action, target, reason, login, client, application"
                                           " FROM sealane_audit"
                                           " ORDER BY id DESC LIMIT ?"));
  select.Bind(static_cast<std::int64_t>(std::min(limit, kDeadLettersMax)));
  std::vector<AuditRecord> records;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return records;
    RowReader row(select);
    AuditRecord& record = records.emplace_back();
    record.id = row.Int();
    record.at = row.Time();
    record.actor = row.Text();
    record.action = row.Text();
    record.target = row.Text();
    record.reason = row.Text();
    record.login = row.Text();
    record.client = row.Text();
    record.application = row.Text();
  }
}

}  // namespace

Result<std::unique_ptr<DeadLetters>> OpenDeadLetters(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(Connection connection, OpenMigrated(options));
  return std::unique_ptr<DeadLetters>(std::make_unique<SqliteDeadLetters>(std::move(connection)));
}

}  // namespace sealane::sqlite
