#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sqlite3.h>

#include "outbox/outbox_log.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/statement.hpp"

namespace sealane::sqlite {

/// The outbox of a SQLite file as one relay sees it. There is one lane, because there is one writer.
class SqliteOutboxLog final : public OutboxLog {
 public:
  SqliteOutboxLog(Connection connection, Options options, std::string route, std::string owner);

  Result<Membership> Beat(std::chrono::milliseconds ttl) override;
  Result<std::vector<LaneGrant>> Claim(std::int32_t max, std::chrono::milliseconds ttl) override;
  Status Release(std::span<const LaneLease> leases) override;
  Status Leave() override;
  Result<Horizon> Look() override;
  Result<Page> Read(const ReadRequest& request) override;
  Result<SettleReport> Settle(const SettleRequest& request) override;
  Result<std::vector<DueUnit>> BlockedUnits(std::span<const LaneLease> leases) override;
  Result<std::vector<DueUnit>> DueUnits(std::span<const LaneLease> leases, std::span<const std::string> but_tenants,
                                        std::size_t limit) override;
  Result<Page> ReadParked(const DueUnit& unit, std::size_t limit, std::vector<ParkedEntry>& entries) override;
  Result<TendReport> Tend() override;

 private:
  struct Lease {
    bool ours = false;   ///< the owner is this relay, whether or not the time is over
    bool alive = false;  ///< the time is not over
    std::int64_t epoch = 0;
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using RawStatement = std::unique_ptr<sqlite3_stmt, Finalize>;

  Result<Lease> ReadLease();
  Result<LanePositions> ReadPositions();
  Status ReadMembership(Membership& membership);
  /// The statement of Read() for these tenants, prepared once.
  Result<sqlite3_stmt*> PrepareRead(bool all_tenants, bool all_but);
  Status MakeDurable();

  Status WriteProgress(const SettleRequest::Progress& progress);
  Status WriteSettlement(std::int64_t seq_to, const std::optional<std::string>& tenants,
                         const std::string& except_tenants);
  Result<Statement> PrepareWriteParked() const;
  Status WriteParked(Statement& upsert, const ParkChange& change) const;
  static Result<std::vector<DueUnit>> UnitsOf(Statement& select, const LaneLease& lease);

  Connection connection_;
  Options options_;
  std::string route_;
  std::string owner_;
  // What the last look saw. Statements end before their connection.
  std::optional<Statement> data_version_;
  std::optional<Statement> now_;
  std::optional<std::int64_t> version_seen_;
  std::int64_t seq_seen_ = -1;
  RawStatement read_all_;
  RawStatement read_these_;
  RawStatement read_all_but_;
};

}  // namespace sealane::sqlite
