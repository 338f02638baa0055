#include "outbox/outbox_log.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "postgres/connection.hpp"
#include "postgres/lane_table.hpp"
#include "postgres/parked_table.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_store.hpp"
#include "postgres/window_reader.hpp"

namespace sealane::postgres {
namespace {

class PostgresLog final : public OutboxLog {
 public:
  PostgresLog(Connection connection, const std::string& quoted_schema, const std::string& route,
              const std::string& owner)
      : connection_(std::move(connection)),
        schema_(quoted_schema),
        route_(route),
        windows_(connection_.get(), quoted_schema),
        lanes_(connection_.get(), quoted_schema, route, owner),
        parked_(connection_.get(), quoted_schema, route, owner) {}

  Status Begin() {
    // Two sessions that draw numbers in blocks would invert the order of a key.
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult cache,
        Run("select seqcache from pg_sequence where seqrelid = '{}.outbox_seq_seq'::regclass and seqcache <> 1"));
    if (PQntuples(cache.get()) > 0) {
      return Error(ErrorKind::kMisconfigured, "sequence_cached",
                   fmt::format("the sequence {}.outbox_seq_seq hands out numbers in blocks, which breaks order",
                               schema_))
          .WithHint(fmt::format("run: alter sequence {}.outbox_seq_seq cache 1", schema_));
    }
    SEALANE_RETURN_IF_ERROR(lanes_.EnsureRoute());
    return windows_.Prepare();
  }

  Result<Membership> Beat(std::chrono::milliseconds ttl) override { return lanes_.Beat(ttl); }
  Result<std::vector<LaneGrant>> Claim(std::int32_t max, std::chrono::milliseconds ttl) override {
    return lanes_.Claim(max, ttl);
  }
  Status Release(std::span<const LaneLease> leases) override { return lanes_.Release(leases); }
  Status Leave() override { return lanes_.Leave(); }

  Result<Horizon> Look() override { return windows_.Look(); }
  Result<Page> Read(const ReadRequest& request) override { return windows_.Read(request); }

  Result<bool> OthersDone(std::span<const LaneLease> mine, const Horizon& horizon) override {
    return lanes_.OthersDone(mine, horizon);
  }

  Result<SettleReport> Settle(const SettleRequest& request) override {
    // Lanes that stand at the same place are one statement, which needs no transaction around it.
    const auto differs = [&](const SettleRequest::Progress& progress) {
      return !(progress.positions == request.progress.front().positions) ||
             progress.window != request.progress.front().window;
    };
    const bool several = !request.park.empty() || !request.unpark.empty() || !request.delay.empty() ||
                         !request.undelay.empty() ||
                         std::any_of(request.progress.begin(), request.progress.end(), differs);
    if (several) SEALANE_RETURN_IF_ERROR(Execute(connection_.get(), "begin"));
    Result<std::vector<Lane>> written = WriteAll(request);
    if (several) {
      const auto ended = Execute(connection_.get(), written ? "commit" : "rollback");
      if (written && !ended) return ended.error();
    }
    if (!written) return std::move(written).error();
    SettleReport report;
    for (const SettleRequest::Progress& progress : request.progress) {
      if (std::find(written->begin(), written->end(), progress.lease.lane) == written->end()) {
        report.fenced.push_back(progress.lease.lane);
      }
    }
    return report;
  }

  Result<std::vector<BlockedUnit>> BlockedUnits(std::span<const LaneLease> leases) override {
    return parked_.Blocked(leases);
  }
  Result<std::vector<BlockedUnit>> BlockedUnits(std::span<const DueUnit> units) override {
    return parked_.Blocked(units);
  }
  Result<std::vector<DueUnit>> TakeChanges(std::span<const LaneLease> leases, std::size_t limit) override {
    return parked_.TakeChanges(leases, limit);
  }
  Result<ParkedBatch> ReadParked(std::span<const DueUnit> units, std::size_t limit, std::size_t bytes_max) override {
    return parked_.Read(units, limit, bytes_max);
  }

  Result<std::vector<WaitingTopic>> WaitingTopics(std::span<const LaneLease> leases, std::size_t limit) override {
    return parked_.WaitingTopics(leases, limit);
  }
  Result<Page> ReadWaiting(const std::string& topic, std::span<const LaneLease> leases,
                           std::span<const std::string> but_tenants, std::size_t limit,
                           std::size_t bytes_max) override {
    return parked_.ReadWaiting(topic, leases, but_tenants, limit, bytes_max);
  }
  Result<DelayedPage> ReadDelayed(const DelayedRequest& request) override { return parked_.ReadDelayed(request); }
  Status KeepOrder(std::string_view order) override { return parked_.KeepOrder(order); }

  Result<TendReport> Tend() override {
    TendReport report;
    SEALANE_ASSIGN_OR_RETURN(const PgResult made, Run("select {}.ensure_partitions()"));
    report.partitions_made = static_cast<std::int32_t>(IntAt(made, 0, 0));
    SEALANE_ASSIGN_OR_RETURN(const PgResult forgotten,
                             Run("select unique_forgotten + idempotency_forgotten from {}.forget_expired(10000)"));
    report.forgotten = IntAt(forgotten, 0, 0);
    const std::vector<TextParameter> parameters = {route_};
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult rerouted,
        Execute(connection_.get(), fmt::format("select {}.forget_rerouted($1, 5000)", schema_), parameters));
    report.forgotten += IntAt(rerouted, 0, 0);
    // What tells when an event was published, and the points in time of the log, are kept for a week.
    for (const char* sql :
         {"delete from {0}.settlement where ctid in (select ctid from {0}.settlement"
          " where route = $1 and at < clock_timestamp() - interval '7 days' order by at limit 20000)",
          "delete from {0}.tick where $1 <> '' and id in (select id from {0}.tick"
          " where at < clock_timestamp() - interval '7 days' order by id limit 20000)"}) {
      SEALANE_ASSIGN_OR_RETURN(const PgResult result,
                               Execute(connection_.get(), fmt::format(fmt::runtime(sql), schema_), parameters));
      const std::string_view count = PQcmdTuples(result.get());
      report.forgotten += count.empty() ? 0 : std::stoll(std::string(count));
    }
    SEALANE_RETURN_IF_ERROR(
        Execute(connection_.get(),
                fmt::format("delete from {}.relay_member"
                            " where route = $1 and expires_at < clock_timestamp() - interval '1 hour'",
                            schema_),
                parameters));
    return report;
  }

 private:
  Result<PgResult> Run(const char* sql) {
    return Execute(connection_.get(), fmt::format(fmt::runtime(sql), schema_));
  }

  // Positions first: their statement locks the lanes, and what follows counts for the same lanes.
  Result<std::vector<Lane>> WriteAll(const SettleRequest& request) {
    SEALANE_ASSIGN_OR_RETURN(std::vector<Lane> written, lanes_.Write(request.progress));
    SEALANE_RETURN_IF_ERROR(parked_.Park(request.park));
    SEALANE_RETURN_IF_ERROR(parked_.Unpark(request.unpark));
    SEALANE_RETURN_IF_ERROR(parked_.Delay(request.delay));
    SEALANE_RETURN_IF_ERROR(parked_.Undelay(request.undelay));
    return written;
  }

  Connection connection_;
  std::string schema_;
  std::string route_;
  WindowReader windows_;
  LaneTable lanes_;
  ParkedTable parked_;
};

}  // namespace

Result<std::unique_ptr<OutboxLog>> OpenOutboxLog(const Options& options, std::string route, std::string owner) {
  SEALANE_ASSIGN_OR_RETURN(const std::string quoted_schema, QuoteSchema(options.schema));
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options));
  SEALANE_RETURN_IF_ERROR(RequireCurrentSchema(connection.get(), quoted_schema, options));
  auto log = std::make_unique<PostgresLog>(std::move(connection), quoted_schema, route, owner);
  SEALANE_RETURN_IF_ERROR(log->Begin());
  return std::unique_ptr<OutboxLog>(std::move(log));
}

}  // namespace sealane::postgres
