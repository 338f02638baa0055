#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sqlite3.h>

#include "outbox/outbox_log.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/lease_memory.hpp"
#include "sqlite/outbox_log_page.hpp"
#include "sqlite/statement.hpp"

namespace sealane::sqlite {

/// The outbox of a SQLite file as one relay sees it. There is one lane, because there is one writer.
///
/// A file that was removed or replaced is kUnavailable (`file_replaced`). One that was restored from an earlier copy,
/// in place or by another file, loses the relay its lease, with everything it has in memory about it: the lane is
/// claimed again under an epoch that this relay never had, from the position that the file has.
class SqliteOutboxLog final : public OutboxLog {
 public:
  SqliteOutboxLog(Connection connection, Options options, std::string route, std::string owner,
                  std::shared_ptr<LeaseMemory> memory);

  Result<Membership> Beat(std::chrono::milliseconds ttl) override;
  Result<std::vector<LaneGrant>> Claim(std::int32_t max, std::chrono::milliseconds ttl) override;
  Status Release(std::span<const LaneLease> leases) override;
  Status Leave() override;
  Result<Horizon> Look() override;
  Result<Page> Read(const ReadRequest& request) override;
  Result<bool> OthersDone(std::span<const LaneLease> mine, const Horizon& horizon) override;
  Result<SettleReport> Settle(const SettleRequest& request) override;
  Result<std::vector<BlockedUnit>> BlockedUnits(std::span<const LaneLease> leases) override;
  Result<std::vector<BlockedUnit>> BlockedUnits(std::span<const DueUnit> units) override;
  Result<std::vector<DueUnit>> TakeChanges(std::span<const LaneLease> leases, std::size_t limit) override;
  Result<ParkedBatch> ReadParked(std::span<const DueUnit> units, std::size_t limit, std::size_t bytes_max) override;
  Result<std::vector<WaitingTopic>> WaitingTopics(std::span<const LaneLease> leases, std::size_t limit) override;
  Result<Page> ReadWaiting(const std::string& topic, std::span<const LaneLease> leases,
                           std::span<const std::string> but_tenants, std::size_t limit,
                           std::size_t bytes_max) override;
  Result<DelayedPage> ReadDelayed(const DelayedRequest& request) override;
  Status KeepOrder(std::string_view order) override;
  Result<TendReport> Tend() override;

 private:
  struct Lease {
    bool ours = false;   ///< the owner is this relay, whether or not the time is over
    bool alive = false;  ///< the time is not over
    std::int64_t epoch = 0;
    std::int64_t writes = 0;  ///< how often its holders have written it
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using RawStatement = std::unique_ptr<sqlite3_stmt, Finalize>;

  Result<Lease> ReadLease();
  Result<LanePositions> ReadPositions();
  /// Says that this relay lives. In a write transaction.
  Status WriteMember(std::chrono::milliseconds ttl);
  Status ReadMembership(Membership& membership);
  /// The statement of Read() for these tenants, prepared once.
  Result<sqlite3_stmt*> PrepareRead(bool all_tenants, bool all_but);
  Status MakeDurable();
  /// The highest number that the log of this file has handed out.
  Result<std::int64_t> SeqHigh();
  /// kMisconfigured (`cursor_ahead_of_log`) when a position lies behind the end of the log.
  Status RefusePositionAhead(const LanePositions& positions);
  /// Gives up a lease that the file has from an earlier life of it.
  Status GiveUpLease();
  /// The error of a file whose content is older than what this relay saw in it.
  Error WentBack();
  /// Whether what was read stands in the file that the lease is about.
  Status CheckMemory();

  Result<bool> FitsTheFile(const SettleRequest& request, const Lease& lease);
  Status WriteProgress(const SettleRequest::Progress& progress);
  Status WriteSettlement(std::int64_t seq_to, const std::optional<std::string>& tenants,
                         const std::string& except_tenants);
  Result<Statement> PrepareWriteParked() const;
  Status WriteParked(Statement& upsert, const ParkChange& change) const;
  static Status AddUnits(Statement& select, const LaneLease& lease, std::vector<BlockedUnit>& units);
  /// False: the page is full, and nothing of the unit was added.
  Result<bool> ReadUnit(sqlite3_stmt* select, const DueUnit& wanted, std::size_t limit, PageBuilder& builder,
                        ParkedUnit& unit);

  Connection connection_;
  Options options_;
  std::string route_;
  std::string owner_;
  std::shared_ptr<LeaseMemory> memory_;
  // What the last look saw. Statements end before their connection.
  std::optional<Statement> data_version_;
  std::optional<Statement> now_;
  std::optional<Statement> lease_writes_;
  std::optional<std::int64_t> version_seen_;
  std::int64_t seq_seen_ = -1;
  RawStatement read_all_;
  RawStatement read_these_;
  RawStatement read_all_but_;
};

}  // namespace sealane::sqlite
