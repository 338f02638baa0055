#include "postgres/postgres_store.hpp"

#include <utility>

#include <fmt/format.h>

#include "postgres/message_query.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_transaction.hpp"

namespace sealane::postgres {
namespace {

class PostgresOwnedTransaction final : public OwnedTransaction {
 public:
  PostgresOwnedTransaction(std::shared_ptr<Connection> connection, std::string_view schema)
      : owner_(std::move(connection)), connection_(owner_->get()), inner_(connection_, schema) {}
  ~PostgresOwnedTransaction() override {
    if (!finished_) (void)Rollback();
  }
  PostgresOwnedTransaction(const PostgresOwnedTransaction&) = delete;
  PostgresOwnedTransaction& operator=(const PostgresOwnedTransaction&) = delete;

  Result<std::vector<Appended>> Append(std::span<const NewEntry> entries) override { return inner_.Append(entries); }
  Result<std::int64_t> NextVersion(const AggregateName& aggregate) override { return inner_.NextVersion(aggregate); }
  Result<std::int64_t> AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) override {
    return inner_.AdvanceVersion(aggregate, expected);
  }
  Result<bool> EnsureOnce(std::string_view scope, std::string_view key) override {
    return inner_.EnsureOnce(scope, key);
  }
  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim& claim) override { return inner_.BeginOnce(claim); }
  Status CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) override {
    return inner_.CompleteOnce(claim, response);
  }
  Result<EnqueuedTask> EnqueueTask(const NewTask& task) override { return inner_.EnqueueTask(task); }

  Status Commit() override {
    finished_ = true;
    auto result = Execute(connection_, "COMMIT");
    if (!result) {
      if (PQstatus(connection_) == CONNECTION_BAD) {
        return Error(ErrorKind::kInDoubt, "commit_in_doubt",
                     "the connection broke during the commit: it may or may not have happened")
            .WithHint("look the event up by its id before doing it again: sealane messages get ID");
      }
      return std::move(result).error();
    }
    // COMMIT of a failed transaction succeeds as a ROLLBACK; that must not look like a commit.
    if (std::string_view(PQcmdStatus(result->get())) != "COMMIT") {
      return Error(ErrorKind::kMisuse, "transaction_failed",
                   "the transaction had failed before the commit and was rolled back");
    }
    return Ok();
  }

  Status Rollback() override {
    finished_ = true;
    SEALANE_RETURN_IF_ERROR(Execute(connection_, "ROLLBACK"));
    return Ok();
  }

 private:
  std::shared_ptr<Connection> owner_;  // a transaction may outlive its store
  PGconn* connection_;
  PostgresTransaction inner_;
  bool finished_ = false;
};

class PostgresStore final : public OutboxStore {
 public:
  PostgresStore(Connection connection, const Options& options, std::string quoted_schema)
      : connection_(std::make_shared<Connection>(std::move(connection))),
        schema_(options.schema),
        quoted_schema_(std::move(quoted_schema)) {}

  Result<std::unique_ptr<OwnedTransaction>> Begin() override {
    SEALANE_RETURN_IF_ERROR(RequireIdle());
    SEALANE_RETURN_IF_ERROR(Execute(connection_->get(), "BEGIN"));
    return std::unique_ptr<OwnedTransaction>(std::make_unique<PostgresOwnedTransaction>(connection_, schema_));
  }

  Result<std::vector<StoredMessage>> ListMessages(const MessageFilter& filter) override {
    SEALANE_RETURN_IF_ERROR(RequireIdle());
    return MessageQuery(connection_->get(), quoted_schema_).List(filter);
  }

  Result<std::optional<StoredMessage>> FindMessage(const EventId& id) override {
    SEALANE_RETURN_IF_ERROR(RequireIdle());
    return MessageQuery(connection_->get(), quoted_schema_).Find(id);
  }

  Result<SweepReport> ForgetExpired(std::size_t limit) override {
    SEALANE_RETURN_IF_ERROR(RequireIdle());
    const std::vector<TextParameter> parameters = {std::to_string(limit)};
    SEALANE_ASSIGN_OR_RETURN(const PgResult result, Execute(connection_->get(),
                                                            "SELECT unique_forgotten, idempotency_forgotten FROM " +
                                                                quoted_schema_ + ".forget_expired($1::int4)",
                                                            parameters));
    return SweepReport{IntAt(result, 0, 0), IntAt(result, 0, 1)};
  }

 private:
  /// Reading inside our own open transaction would show what is not committed, and a second one would share the
  /// first's fate.
  Status RequireIdle() const {
    if (PQtransactionStatus(connection_->get()) == PQTRANS_IDLE || PQstatus(connection_->get()) == CONNECTION_BAD) {
      return Ok();
    }
    return Error(ErrorKind::kMisuse, "transaction_open", "a transaction of this store is open")
        .WithHint("commit it or roll it back first, or open another store");
  }

  std::shared_ptr<Connection> connection_;
  std::string schema_;
  std::string quoted_schema_;
};

}  // namespace

std::string ClientVersion() {
  // 150014 is 15.14: the form that every libpq since 10 has.
  return fmt::format("{}.{}", PQlibVersion() / 10000, PQlibVersion() % 10000);
}

Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(std::string quoted_schema, QuoteSchema(options.schema));
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options));
  SEALANE_RETURN_IF_ERROR(RequireCurrentSchema(connection.get(), quoted_schema, options));
  return std::unique_ptr<OutboxStore>(
      std::make_unique<PostgresStore>(std::move(connection), options, std::move(quoted_schema)));
}

}  // namespace sealane::postgres
