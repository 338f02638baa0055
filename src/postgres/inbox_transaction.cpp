#include "postgres/inbox_transaction.hpp"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "inbox/sql_script.hpp"

namespace sealane::postgres {

namespace {

/// The table that is missing in a handler's statement is the application's own.
Error HandlersOwn(Error error) {
  if (error.code() != "schema_missing") return error;
  return Error(ErrorKind::kMisconfigured, "relation_missing", error.message())
      .WithHint("create what the handler's statement names, or correct the statement");
}

}  // namespace

InboxTransaction::~InboxTransaction() {
  if (finished_) return;
  static_cast<void>(Settle());
  session_.RollBack();
}

Status InboxTransaction::RequireHandlersOwn(const std::string& sql) const {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  // The receipts of the whole batch are written already: a commit in here would keep them without the effects.
  if (IsCopy(sql)) {
    return Error(ErrorKind::kMisuse, "copy_in_handler", "a handler's statement would copy through the connection")
        .WithHint("write INSERT ... SELECT, or use the connection itself: native()");
  }
  if (!EndsTransaction(sql)) return Ok();
  return Error(ErrorKind::kMisuse, "transaction_ended", "a handler's statement would end the transaction")
      .WithHint("a handler neither commits nor rolls back");
}

Result<PgResult> InboxTransaction::RunStatement(const std::string& sql, std::span<const SqlValue> values) {
  SEALANE_RETURN_IF_ERROR(Settle());
  const auto failed = [this](Error error) {
    if (!failure_) failure_ = error;
    return error;
  };
  if (Status own = RequireHandlersOwn(sql); !own) return failed(std::move(own).error());
  Result<PgResult> result = session_.statements->Run(session_.get(), sql, values);
  if (!result) return failed(HandlersOwn(std::move(result).error()));
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  return result;
}

Status InboxTransaction::Post(const std::string& sql, std::span<const SqlValue> values) {
  if (answers_ == Answers::kAtOnce) return InboxBatch::Post(sql, values);
  if (post_failure_) return *post_failure_;
  if (Status own = RequireHandlersOwn(sql); !own) {
    post_failure_ = std::move(own).error();
    return *post_failure_;
  }
  if (Status posted = session_.statements->Post(session_.get(), sql, values); !posted) {
    post_failure_ = HandlersOwn(std::move(posted).error());
    return *post_failure_;
  }
  return Ok();
}

Status InboxTransaction::Settle() {
  Status settled = session_.statements->Settle(session_.get());
  if (!settled && !post_failure_) post_failure_ = HandlersOwn(std::move(settled).error());
  if (post_failure_) return *post_failure_;
  return Ok();
}

Result<std::int64_t> InboxTransaction::Execute(const std::string& sql, std::span<const SqlValue> values) {
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, RunStatement(sql, values));
  const std::string_view count = PQcmdTuples(result.get());
  std::int64_t rows = 0;
  std::from_chars(count.data(), count.data() + count.size(), rows);
  return rows;
}

Result<std::vector<std::vector<std::optional<std::string>>>> InboxTransaction::Query(const std::string& sql,
                                                                                     std::span<const SqlValue> values,
                                                                                     std::size_t rows_max) {
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, RunStatement(sql, values));
  std::vector<std::vector<std::optional<std::string>>> rows;
  for (int row = 0; row < PQntuples(result.get()) && rows.size() < rows_max; ++row) {
    auto& fields = rows.emplace_back();
    for (int column = 0; column < PQnfields(result.get()); ++column) {
      fields.push_back(IsNull(result, row, column) ? std::nullopt
                                                   : std::optional(std::string(TextAt(result, row, column))));
    }
  }
  return rows;
}

Status InboxTransaction::RequireOpen() const {
  if (finished_) {
    return Error(ErrorKind::kMisuse, "batch_finished", "this batch is finished").WithHint("open a new one");
  }
  // Then libpq cannot tell.
  if (session_.statements->waiting()) return Ok();
  switch (PQtransactionStatus(session_.get())) {
    case PQTRANS_INTRANS:
      if (!failure_) return Ok();
      return Error(ErrorKind::kMisuse, "transaction_failed",
                   fmt::format("a statement of the transaction was refused: {}", failure_->message()))
          .WithHint("a handler returns or throws the error of its statement");
    case PQTRANS_INERROR:
      return Error(ErrorKind::kMisuse, "transaction_failed",
                   "a statement of the transaction has failed: nothing of it can be kept")
          .WithHint("a handler returns or throws the error of its statement");
    case PQTRANS_UNKNOWN:
      return Error(ErrorKind::kUnavailable, "connection_lost", "the connection to the server is broken")
          .WithHint("connect again; what was not committed comes again");
    default:
      return Error(ErrorKind::kMisuse, "transaction_ended", "the transaction was ended inside the handler")
          .WithHint("a handler neither commits nor rolls back");
  }
}

Status InboxTransaction::Rewind() {
  static_cast<void>(Settle());
  post_failure_.reset();
  failure_.reset();
  SEALANE_RETURN_IF_ERROR(postgres::Execute(session_.get(), "ROLLBACK TO SAVEPOINT sealane_handler"));
  return Ok();
}

Status InboxTransaction::Commit(std::vector<Call> calls) {
  Status open = Settle();
  if (open) open = RequireOpen();
  if (!open) {
    finished_ = true;
    session_.RollBack();
    return open;
  }
  finished_ = true;
  // Once more: a statement may have waited for a restore into this very database, and have written into what it left.
  calls.push_back(session_.LifeCheck());
  calls.emplace_back("COMMIT");
  PipelineReport report = RunTogether(session_.get(), calls);
  if (report.error) {
    const bool at_commit = report.results.size() + 1 == calls.size();
    if (PQstatus(session_.get()) == CONNECTION_BAD && (at_commit || !report.refused)) {
      return Error(ErrorKind::kInDoubt, "commit_in_doubt",
                   "the connection broke during the commit of a batch: it may or may not have happened")
          .WithHint("read the messages again: those that were committed are recognised");
    }
    session_.RollBack();
    return *std::move(report.error);
  }
  // COMMIT of a failed transaction succeeds as a ROLLBACK; that must not look like a commit.
  if (std::string_view(PQcmdStatus(report.results.back().get())) != "COMMIT") {
    return Error(ErrorKind::kMisuse, "transaction_failed",
                 "the transaction had failed before the commit and was rolled back");
  }
  return Ok();
}

Call MarkCall(const InboxSession& session, std::span<const ReceiptChange> changes) {
  Call call = session.Function("inbox_mark");
  call.Uuids(changes, [](const ReceiptChange& change) { return change.id; })
      .Times(changes, [](const ReceiptChange& change) { return change.filed_at; })
      .Byteas(changes, [](const ReceiptChange& change) { return change.hash; })
      .Texts(changes, [](const ReceiptChange& change) { return change.state; })
      .Texts(changes, [](const ReceiptChange& change) { return change.code; })
      .Texts(changes, [](const ReceiptChange& change) { return change.message; });
  return call;
}

Call SetVersionsCall(const InboxSession& session, std::span<const VersionChange> changes) {
  Call call = session.Function("inbox_set_versions");
  call.Texts(changes, [](const VersionChange& change) { return change.tenant; })
      .Texts(changes, [](const VersionChange& change) { return change.type; })
      .Texts(changes, [](const VersionChange& change) { return change.id; })
      .Int8s(changes, [](const VersionChange& change) { return change.version; });
  return call;
}

Error OutcomesDiffer(std::size_t outcomes, std::size_t events) {
  return Error(ErrorKind::kMisuse, "outcomes_differ", fmt::format("{} outcomes for {} events", outcomes, events))
      .WithHint("say what became of each event of the batch, in their order");
}

std::optional<std::string> ColumnOf(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(FitForColumn(text));
}

}  // namespace sealane::postgres
