#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ops/operator_action.hpp"
#include "postgres/conditions.hpp"
#include "postgres/connection.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_store.hpp"
#include "postgres/row_text.hpp"
#include "postgres/short_transaction.hpp"

namespace sealane::postgres {
namespace {

Conditions ConditionsOf(const DeadLetterFilter& filter) {
  Conditions conditions;
  conditions.AddIf("p.route", filter.route);
  conditions.AddIf("p.tenant", filter.tenant);
  conditions.AddIf("p.topic", filter.topic);
  conditions.AddIf("p.key", filter.key);
  conditions.AddIf("p.error_code", filter.error_code);
  if (filter.state) {
    conditions.Add("p.state", std::string(ToString(*filter.state)));
  } else {
    conditions.sql += " AND p.state IN ('FAILED', 'DEAD')";
  }
  return conditions;
}

Conditions ConditionsOf(const EventId& id) {
  Conditions conditions;
  conditions.Add("p.event_id", id.ToString());
  return conditions;
}

/// What an operator changes: an action of operator_dead(), and which events it is about.
struct Change {
  std::string_view action;
  std::optional<EventId> id = {};
  DeadLetterFilter which = {};
};

constexpr std::string_view kLongestWaitingFirst = "p.first_failed_at NULLS LAST, p.seq, p.route";

enum LetterColumn {
  kRoute,
  kLane,
  kSeq,
  kEventId,
  kUnit,
  kTenant,
  kTopic,
  kKey,
  kType,
  kState,
  kSkipped,
  kAttempts,
  kNextAttempt,
  kFirstFailed,
  kLastFailed,
  kErrorCode,
  kErrorMessage,
  kFollowers,
};

Result<DeadLetter> ReadLetter(const PgResult& result, int row) {
  const auto id = EventId::Parse(TextAt(result, row, kEventId));
  const auto state = ParseParkedState(TextAt(result, row, kState));
  if (!id || !state) {
    return Error(ErrorKind::kCorrupt, "row_corrupt",
                 fmt::format("seq {} is set aside with an id or a state that is none", TextAt(result, row, kSeq)))
        .WithHint("look at the row in the table parked");
  }
  DeadLetter letter;
  letter.route = Text(result, row, kRoute);
  letter.lane = static_cast<Lane>(IntAt(result, row, kLane));
  letter.seq = IntAt(result, row, kSeq);
  letter.id = *id;
  letter.unit = Text(result, row, kUnit);
  letter.tenant = Text(result, row, kTenant);
  letter.topic = Text(result, row, kTopic);
  letter.key = Text(result, row, kKey);
  letter.type = Text(result, row, kType);
  letter.state = *state;
  letter.skipped = IsTrue(result, row, kSkipped);
  letter.attempts = static_cast<std::int32_t>(IntAt(result, row, kAttempts));
  letter.next_attempt_at = OptionalTime(result, row, kNextAttempt);
  letter.first_failed_at = OptionalTime(result, row, kFirstFailed);
  letter.last_failed_at = OptionalTime(result, row, kLastFailed);
  letter.error_code = Text(result, row, kErrorCode);
  letter.error_message = Text(result, row, kErrorMessage);
  letter.followers = IntAt(result, row, kFollowers);
  return letter;
}

class PostgresDeadLetters final : public DeadLetters {
 public:
  PostgresDeadLetters(Connection connection, std::string quoted_schema)
      : connection_(std::move(connection)), schema_(std::move(quoted_schema)) {}

  Result<std::vector<DeadLetter>> List(const DeadLetterFilter& filter) override {
    return Select(ConditionsOf(filter), filter.limit);
  }
  Result<std::vector<DeadLetter>> Find(const EventId& id) override {
    return Select(ConditionsOf(id), kDeadLettersMax);
  }

  Result<std::int64_t> Retry(const DeadLetterFilter& which, const OperatorAction& why) override {
    return Apply({.action = "retry", .which = which}, why);
  }
  Result<std::int64_t> Retry(const EventId& id, std::optional<std::string> route,
                             const OperatorAction& why) override {
    return Apply(OfOne("retry", id, std::move(route)), why);
  }
  Result<std::int64_t> Discard(const EventId& id, std::optional<std::string> route,
                               const OperatorAction& why) override {
    return Apply(OfOne("discard", id, std::move(route)), why);
  }
  Result<std::int64_t> Skip(const EventId& id, std::optional<std::string> route, const OperatorAction& why) override {
    return Apply(OfOne("skip", id, std::move(route)), why);
  }

  Result<std::int64_t> CountReroute(const RerouteRequest& request) override;
  Result<std::int64_t> Reroute(const RerouteRequest& request, const OperatorAction& why) override;
  Result<std::vector<TenantRule>> Tenants(const std::string& route) override;
  Status SetTenant(const std::string& route, const TenantRule& rule, const OperatorAction& why) override;
  Status SetPaused(const std::string& route, bool paused, const OperatorAction& why) override;
  Result<std::vector<AuditRecord>> Audit(std::size_t limit) override;

 private:
  Result<std::vector<DeadLetter>> Select(Conditions conditions, std::size_t limit);
  static Change OfOne(std::string_view action, const EventId& id, std::optional<std::string> route) {
    return {.action = action, .id = id, .which = {.route = std::move(route), .limit = kDeadLettersMax}};
  }
  /// The changes and their audit records are one statement. An operator has no right to change a table otherwise.
  Result<std::int64_t> Apply(const Change& change, const OperatorAction& why);
  /// Of a function that says false when there is no such route.
  Status ChangeRoute(const std::string& route, const std::string& sql, std::span<const TextParameter> parameters);

  Connection connection_;
  std::string schema_;
};

Result<std::vector<DeadLetter>> PostgresDeadLetters::Select(Conditions conditions, std::size_t limit) {
  const std::string limit_parameter =
      conditions.Bind(std::to_string(std::clamp<std::size_t>(limit, 1, kDeadLettersMax)));
  // The row of the log is found by the index on (xid, lane). Nobody waits behind an event that was given up or
  // skipped.
  const std::string sql = fmt::format(
      "SELECT p.route, p.lane, p.seq, p.event_id, p.unit, p.tenant, p.topic, p.key,"
      " (SELECT o.type FROM {0}.outbox o WHERE o.xid = p.xid AND o.lane = p.lane AND o.seq = p.seq LIMIT 1),"
      " p.state, p.skipped, p.attempts, {1}, {2}, {3}, p.error_code, p.error_message,"
      " CASE WHEN p.state = 'DISCARDED' OR p.skipped THEN 0 ELSE"
      " (SELECT count(*) FROM {0}.parked f WHERE f.route = p.route AND f.lane = p.lane AND f.unit = p.unit"
      " AND f.seq > p.seq AND f.state <> 'DISCARDED' AND NOT f.skipped AND f.waits_for IS NULL) END"
      " FROM {0}.parked p WHERE {4} ORDER BY {5} LIMIT {6}::int8",
      schema_, Micros("p.next_attempt_at"), Micros("p.first_failed_at"), Micros("p.last_failed_at"), conditions.sql,
      kLongestWaitingFirst, limit_parameter);
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, Execute(connection_.get(), sql, conditions.parameters));
  std::vector<DeadLetter> letters;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    SEALANE_ASSIGN_OR_RETURN(DeadLetter letter, ReadLetter(result, row));
    letters.push_back(std::move(letter));
  }
  return letters;
}

Result<std::int64_t> PostgresDeadLetters::Apply(const Change& change, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  const DeadLetterFilter& which = change.which;
  const std::array<TextParameter, 11> parameters = {
      std::string(change.action),
      change.id ? TextParameter(change.id->ToString()) : std::nullopt,
      which.route,
      which.tenant,
      which.topic,
      which.key,
      which.error_code,
      which.state ? TextParameter(ToString(*which.state)) : std::nullopt,
      std::to_string(std::clamp<std::size_t>(which.limit, 1, kDeadLettersMax)),
      why.actor,
      why.reason};
  const auto changed = Execute(
      connection_.get(),
      fmt::format("SELECT {}.operator_dead($1, $2::uuid, $3, $4, $5, $6, $7, $8, $9::int8, $10, $11)", schema_),
      parameters);
  if (changed) return IntAt(*changed, 0, 0);
  return ChangeFailed(connection_.get(), changed.error());
}

Result<std::int64_t> PostgresDeadLetters::CountReroute(const RerouteRequest& request) {
  SEALANE_RETURN_IF_ERROR(CheckReroute(request));
  const std::array<TextParameter, 4> parameters = {request.route, request.topic, request.waiting ? "t" : "f",
                                                   std::nullopt};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult counted,
      Execute(connection_.get(),
              fmt::format("SELECT count(*) FROM {}.rows_to_reroute($1, $2, $3::bool, $4::int8)", schema_),
              parameters));
  return IntAt(counted, 0, 0);
}

Result<std::int64_t> PostgresDeadLetters::Reroute(const RerouteRequest& request, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(CheckReroute(request));
  const std::array<TextParameter, 7> parameters = {
      request.route, request.topic, request.to, request.waiting ? "t" : "f", std::to_string(request.limit),
      why.actor,     why.reason};
  const auto changed =
      Execute(connection_.get(),
              fmt::format("SELECT {}.operator_reroute($1, $2, $3, $4::bool, $5::int8, $6, $7)", schema_), parameters);
  if (changed) return IntAt(*changed, 0, 0);
  return ChangeFailed(connection_.get(), changed.error());
}

Status PostgresDeadLetters::ChangeRoute(const std::string& route, const std::string& sql,
                                        std::span<const TextParameter> parameters) {
  const auto changed = Execute(connection_.get(), sql, parameters);
  if (!changed) return ChangeFailed(connection_.get(), changed.error());
  if (!IsTrue(*changed, 0, 0)) return UnknownRoute(route);
  return Ok();
}

Result<std::vector<TenantRule>> PostgresDeadLetters::Tenants(const std::string& route) {
  const std::array<TextParameter, 1> parameters = {route};
  // Byte order, as the other stores have it. A route without rules is a row without a tenant.
  SEALANE_ASSIGN_OR_RETURN(const PgResult result,
                           Execute(connection_.get(),
                                   fmt::format("SELECT t.tenant, t.paused, t.rate_max, t.weight FROM {0}.route r"
                                               " LEFT JOIN {0}.tenant_rule t ON t.route = r.name WHERE r.name = $1"
                                               " ORDER BY t.tenant COLLATE \"C\"",
                                               schema_),
                                   parameters));
  if (PQntuples(result.get()) == 0) return UnknownRoute(route);
  std::vector<TenantRule> rules;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    if (IsNull(result, row, 0)) continue;
    rules.push_back({.tenant = Text(result, row, 0),
                     .paused = IsTrue(result, row, 1),
                     .rate_max = IntAt(result, row, 2),
                     .weight = static_cast<std::int32_t>(IntAt(result, row, 3))});
  }
  return rules;
}

Status PostgresDeadLetters::SetTenant(const std::string& route, const TenantRule& rule, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(CheckRule(rule));
  const std::array<TextParameter, 7> parameters = {route,
                                                   rule.tenant,
                                                   rule.paused ? "true" : "false",
                                                   std::to_string(rule.rate_max),
                                                   std::to_string(rule.weight),
                                                   why.actor,
                                                   why.reason};
  return ChangeRoute(
      route, fmt::format("SELECT {}.operator_set_tenant($1, $2, $3::boolean, $4::int8, $5::int4, $6, $7)", schema_),
      parameters);
}

Status PostgresDeadLetters::SetPaused(const std::string& route, bool paused, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  const std::array<TextParameter, 4> parameters = {route, paused ? "true" : "false", why.actor, why.reason};
  return ChangeRoute(route, fmt::format("SELECT {}.operator_set_paused($1, $2::boolean, $3, $4)", schema_),
                     parameters);
}

Result<std::vector<AuditRecord>> PostgresDeadLetters::Audit(std::size_t limit) {
  const std::array<TextParameter, 1> parameters = {std::to_string(std::min(limit, kDeadLettersMax))};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Execute(connection_.get(),
              fmt::format("SELECT id, {}, actor, action, target, reason, login, host(client_addr), application_name"
                          " FROM {}.audit ORDER BY id DESC LIMIT $1::int8",
                          Micros("at"), schema_),
              parameters));
  std::vector<AuditRecord> records;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    records.push_back({.id = IntAt(result, row, 0),
                       .at = TimeAt(result, row, 1),
                       .actor = Text(result, row, 2),
                       .action = Text(result, row, 3),
                       .target = Text(result, row, 4),
                       .reason = Text(result, row, 5),
                       .login = Text(result, row, 6),
                       .client = Text(result, row, 7),
                       .application = Text(result, row, 8)});
  }
  return records;
}

}  // namespace

Result<std::unique_ptr<DeadLetters>> OpenDeadLetters(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(std::string quoted_schema, QuoteSchema(options.schema));
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options));
  SEALANE_RETURN_IF_ERROR(RequireCurrentSchema(connection.get(), quoted_schema, options));
  return std::unique_ptr<DeadLetters>(
      std::make_unique<PostgresDeadLetters>(std::move(connection), std::move(quoted_schema)));
}

}  // namespace sealane::postgres
