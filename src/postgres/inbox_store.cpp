#include "inbox/inbox_store.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "postgres/inbox_batch.hpp"
#include "postgres/inbox_parked.hpp"
#include "postgres/inbox_progress.hpp"
#include "postgres/inbox_session.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_store.hpp"

namespace sealane::postgres {
namespace {

class PostgresInbox final : public InboxStore {
 public:
  explicit PostgresInbox(InboxSession session) : session_(std::move(session)) {}

  Status Begin() {
    const std::string_view mode = ToString(session_.mode);
    SEALANE_ASSIGN_OR_RETURN(const PgResult life, Call(session_.quoted_schema, "inbox_life").Run(session_.get()));
    session_.life = TextAt(life, 0, 0);
    Call adding = session_.Function("inbox_add_consumer");
    adding.Text(mode);
    SEALANE_ASSIGN_OR_RETURN(const PgResult added, session_.Run(std::move(adding)));
    if (TextAt(added, 0, 0) == mode) return Ok();
    return Error(ErrorKind::kMisconfigured, "inbox_mode_differs",
                 fmt::format("consumer \"{}\" was added with mode {}, not {}", EscapeForTerminal(session_.consumer),
                             TextAt(added, 0, 0), mode))
        .WithHint("use the mode it has; what one mode remembers means nothing in the other");
  }

  std::string life() const override { return session_.life; }

  Result<std::unique_ptr<InboxBatch>> Open(const BatchRequest& request) override {
    return OpenInboxBatch(session_, request);
  }

  Result<std::optional<StatementFault>> Examine(const std::string& sql, std::span<const SqlValue> values) override {
    SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
    return ExamineStatement(session_.get(), sql, values);
  }

  Result<InboxLook> Look(bool by_version, std::size_t limit) override {
    return InboxParked(session_).Look(by_version, limit);
  }
  Result<std::optional<RetryBatch>> OpenRetry(const std::string& unit, bool by_version,
                                              std::chrono::milliseconds patience) override {
    return InboxParked(session_).OpenRetry(unit, by_version, patience);
  }
  Result<RetryGroup> OpenRetries(std::span<const std::string> units, bool by_version,
                                 std::chrono::milliseconds patience) override {
    return InboxParked(session_).OpenRetries(units, by_version, patience);
  }
  Status SetHold(const std::optional<ConsumerHold>& hold) override { return InboxParked(session_).SetHold(hold); }

  Result<std::vector<AttachedPartition>> Attach(std::span<const Partition> partitions,
                                                std::size_t recent_max) override {
    return InboxProgress(session_).Attach(partitions, recent_max);
  }
  Status Detach(std::span<const AttachedPartition> partitions) override {
    return InboxProgress(session_).Detach(partitions);
  }
  Result<std::vector<std::size_t>> SavePositions(std::span<const PositionSave> saves) override {
    return InboxProgress(session_).Save(saves);
  }
  Status Place(const AttachedPartition& partition, std::int64_t next_offset, const std::string& topic_id) override {
    return InboxProgress(session_).Place(partition, next_offset, topic_id);
  }
  Status Stop(const AttachedPartition& partition, const PartitionStop& stop) override {
    return InboxProgress(session_).Stop(partition, stop);
  }
  Status Suspect(const AttachedPartition& partition, std::int64_t offset) override {
    return InboxProgress(session_).Suspect(partition, offset);
  }
  Status Calm(const AttachedPartition& partition) override { return InboxProgress(session_).Calm(partition); }

  Result<InboxCounts> Count(std::int64_t count_max) override { return InboxParked(session_).Count(count_max); }

  Status Tend() override {
    SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
    SEALANE_RETURN_IF_ERROR(Call(session_.quoted_schema, "inbox_ensure_partitions").Run(session_.get()));
    return Ok();
  }

  Result<InboxTimes> Times() override {
    SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
    SEALANE_ASSIGN_OR_RETURN(const PgResult result, session_.Function("inbox_times").Run(session_.get()));
    return InboxTimes{.now = Timestamp{std::chrono::microseconds{IntAt(result, 0, 0)}},
                      .added_at = Timestamp{std::chrono::microseconds{IntAt(result, 0, 1)}}};
  }

  Result<PruneReport> Prune(Timestamp before, std::size_t limit) override {
    SEALANE_RETURN_IF_ERROR(session_.RequireIdle());
    const auto limit_max = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
    Call call = session_.Function("inbox_prune");
    call.Time(before).Int8(static_cast<std::int64_t>(std::min(limit, limit_max)));
    SEALANE_ASSIGN_OR_RETURN(const PgResult result, session_.Run(std::move(call)));
    return PruneReport{.receipts = IntAt(result, 0, 0), .more = TextAt(result, 0, 1) == "t"};
  }

 private:
  InboxSession session_;
};

}  // namespace

Result<std::unique_ptr<InboxStore>> OpenInboxStore(const Options& options, std::string consumer, InboxMode mode) {
  SEALANE_ASSIGN_OR_RETURN(std::string quoted_schema, QuoteSchema(options.schema));
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options));
  SEALANE_RETURN_IF_ERROR(RequireCurrentSchema(connection.get(), quoted_schema, options));
  auto store =
      std::make_unique<PostgresInbox>(InboxSession{.connection = std::make_shared<Connection>(std::move(connection)),
                                                   .schema = options.schema,
                                                   .quoted_schema = std::move(quoted_schema),
                                                   .consumer = std::move(consumer),
                                                   .mode = mode});
  SEALANE_RETURN_IF_ERROR(store->Begin());
  return std::unique_ptr<InboxStore>(std::move(store));
}

}  // namespace sealane::postgres
