#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <pqxx/pqxx>

#include "sealane/assert.hpp"
#include "sealane/postgres_sql.hpp"
#include "sealane/result.hpp"
#include "sealane/transaction.hpp"

namespace sealane {

/// The producer's port over a transaction of libpqxx (6.4 and 7.x): events exist exactly when it commits.
///
///     pqxx::work tx(connection);
///     tx.exec("INSERT INTO orders VALUES (42, 'placed')");
///     auto event = outbox.Append(sealane::PqxxTransaction(tx), {.topic = "orders", .key = "42", ...});
///     if (event) tx.commit();
///
/// Takes a pqxx::dbtransaction, so that a pqxx::nontransaction, which commits every statement by itself, does not
/// compile. The transaction stays the caller's and must outlive this. Statements go through libpqxx, which does not
/// lend its PGconn; values travel as text, so a large batch is cheaper through libpq.
///
/// No exception of libpqxx leaves it. After an error the transaction is lost: let it abort. Some versions of libpqxx
/// commit it without complaint, and the server then keeps nothing of it.
class PqxxTransaction final : public Transaction {
 public:
  /// `schema` is where `sealane migrate up` put the tables.
  explicit PqxxTransaction(pqxx::dbtransaction& transaction, std::string schema = "sealane")
      : transaction_(transaction), schema_(std::move(schema)) {}

  /// Lets a temporary stand for a transaction in one call, as in the example.
  operator TransactionRef() && { return TransactionRef(static_cast<Transaction&>(*this)); }  // NOLINT: implicit

  Result<std::vector<Appended>> Append(std::span<const NewEntry> entries) override {
    if (entries.empty()) {
      // Nothing to write, but a transaction that has ended must not go unnoticed.
      SEALANE_RETURN_IF_ERROR(Run(SqlCall{"SELECT 1", {}}));
      return std::vector<Appended>{};
    }
    SEALANE_ASSIGN_OR_RETURN(const SqlRows rows, Run(AppendCall(entries, schema_)));
    return ReadAppended(entries, rows);
  }

  Result<std::int64_t> NextVersion(const AggregateName& aggregate) override {
    SEALANE_ASSIGN_OR_RETURN(const SqlRows rows, Run(NextVersionCall(aggregate, schema_)));
    return ReadVersion(aggregate, 0, rows);
  }

  Result<std::int64_t> AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) override {
    SEALANE_ASSIGN_OR_RETURN(const SqlRows rows, Run(AdvanceVersionCall(aggregate, expected, schema_)));
    return ReadVersion(aggregate, expected, rows);
  }

  Result<bool> EnsureOnce(std::string_view scope, std::string_view key) override {
    SEALANE_ASSIGN_OR_RETURN(const SqlRows rows, Run(EnsureOnceCall(scope, key, schema_)));
    return ReadEnsureOnce(rows);
  }

  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim& claim) override {
    SEALANE_ASSIGN_OR_RETURN(const SqlRows rows, Run(BeginOnceCall(claim, schema_)));
    return ReadBeginOnce(rows);
  }

  Status CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) override {
    SEALANE_RETURN_IF_ERROR(Run(CompleteOnceCall(claim, response, schema_)));
    return Ok();
  }

  Result<EnqueuedTask> EnqueueTask(const NewTask& task) override {
    SEALANE_ASSIGN_OR_RETURN(const SqlRows rows, Run(EnqueueTaskCall(task, schema_)));
    return ReadEnqueuedTask(task, rows);
  }

 private:
  Result<SqlRows> Run(const Result<SqlCall>& call) {
    if (!call) return call.error();
    try {
      if (transaction_.conn().get_client_encoding() != "UTF8") {
        return Error(ErrorKind::kMisconfigured, "client_encoding", "the connection's client_encoding is not UTF8")
            .WithHint("events are UTF-8: SET client_encoding TO 'UTF8' on this connection");
      }
      return ReadRows(Execute(*call));
    } catch (const pqxx::serialization_failure& error) {
      // libpqxx 6 keeps the SQLSTATE of these to itself.
      return ErrorFromServer("40001", error.what());
    } catch (const pqxx::deadlock_detected& error) {
      return ErrorFromServer("40P01", error.what());
    } catch (const pqxx::sql_error& error) {
      return ErrorFromServer(error.sqlstate(), error.what());
    } catch (const pqxx::broken_connection& error) {
      return Error(ErrorKind::kUnavailable, "connection_lost", error.what())
          .WithHint("nothing of an unfinished transaction is kept; connect again and repeat it");
    } catch (const pqxx::usage_error& error) {
      return Error(ErrorKind::kMisuse, "no_transaction", error.what())
          .WithHint("append before the transaction is committed or aborted");
    } catch (const std::exception& error) {
      return Error(ErrorKind::kUnavailable, "store_error", error.what()).WithHint("abort the transaction");
    }
  }

  /// By exec() with the parameters written out, because that is the one call that every libpqxx refuses after the
  /// transaction has ended; exec_params() would go ahead and commit by itself.
  pqxx::result Execute(const SqlCall& call) { return transaction_.exec(WrittenOut(call)); }

  std::string WrittenOut(const SqlCall& call) const {
    std::string statement;
    std::size_t from = 0;
    for (std::size_t at = call.text.find('$'); at != std::string::npos; at = call.text.find('$', from)) {
      std::size_t number = 0;
      const auto [end, error] =
          std::from_chars(call.text.data() + at + 1, call.text.data() + call.text.size(), number);
      SEALANE_ASSERT(error == std::errc{} && number >= 1 && number <= call.parameters.size(),
                     "a statement has a value for each of its parameters");
      const auto& value = call.parameters[number - 1];
      statement.append(call.text, from, at - from).append(value ? transaction_.quote(*value) : "NULL");
      from = static_cast<std::size_t>(end - call.text.data());
    }
    return statement.append(call.text, from);
  }

  static SqlRows ReadRows(const pqxx::result& result) {
    SqlRows rows;
    for (decltype(result.size()) row = 0; row < result.size(); ++row) {
      auto& columns = rows.emplace_back();
      for (decltype(result.columns()) column = 0; column < result.columns(); ++column) {
        const auto field = result[row][column];
        columns.push_back(field.is_null() ? std::nullopt : std::optional<std::string>(field.c_str()));
      }
    }
    return rows;
  }

  pqxx::dbtransaction& transaction_;
  std::string schema_;
};

}  // namespace sealane
