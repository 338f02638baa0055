#include <libpq-fe.h>

#include "sealane/postgres_sql.hpp"

#include "connection.hpp"

namespace example {
namespace {

using sealane::Error;
using sealane::ErrorKind;
using sealane::Result;
using sealane::SqlValue;
using sealane::Status;
using PgResult = std::unique_ptr<PGresult, decltype(&PQclear)>;

/// Parameters as libpq takes them: bytes in binary, everything else as text.
struct Parameters {
  explicit Parameters(std::span<const SqlValue> values) {
    texts.reserve(values.size());  // pointers into it stay good
    for (const SqlValue& value : values) Add(value);
  }
  void Add(const SqlValue& value) {
    const bool is_bytes = std::holds_alternative<sealane::SqlBytes>(value);
    if (std::holds_alternative<std::monostate>(value)) {
      pointers.push_back(nullptr);
      lengths.push_back(0);
    } else {
      if (is_bytes) {
        texts.push_back(std::get<sealane::SqlBytes>(value).bytes);
      } else if (const auto* number = std::get_if<std::int64_t>(&value)) {
        texts.push_back(std::to_string(*number));
      } else {
        texts.push_back(std::get<std::string>(value));
      }
      pointers.push_back(texts.back().c_str());
      lengths.push_back(static_cast<int>(texts.back().size()));
    }
    formats.push_back(is_bytes ? 1 : 0);
  }
  std::vector<std::string> texts;
  std::vector<const char*> pointers;
  std::vector<int> lengths;
  std::vector<int> formats;
};

std::vector<Row> ReadRows(const PGresult* result) {
  std::vector<Row> rows;
  for (int r = 0; r < PQntuples(result); ++r) {
    Row& row = rows.emplace_back();
    for (int c = 0; c < PQnfields(result); ++c) {
      if (PQgetisnull(result, r, c) != 0) {
        row.emplace_back();
      } else {
        row.emplace_back(PQgetvalue(result, r, c));
      }
    }
  }
  return rows;
}

class Postgres final : public Connection {
 public:
  explicit Postgres(const std::string& url) : connection_(PQconnectdb(url.c_str()), &PQfinish) {
    if (PQstatus(connection_.get()) == CONNECTION_OK) return;
    throw sealane::SealaneException(
        Error(ErrorKind::kUnavailable, "store_unreachable", PQerrorMessage(connection_.get())));
  }

  Status Begin() override {
    SEALANE_RETURN_IF_ERROR(Send("BEGIN", {}));
    return sealane::Ok();
  }

  Status Commit() override {
    Result<PgResult> result = Send("COMMIT", {});
    if (!result && PQstatus(connection_.get()) == CONNECTION_BAD) {
      // Not connection_lost, after which nothing exists: the server may have committed before it could say so.
      return Error(ErrorKind::kInDoubt, "commit_in_doubt",
                   "the connection broke during the commit: it may or may not have happened")
          .WithHint("look for what was to be written before doing it again");
    }
    if (!result) return std::move(result).error();
    // COMMIT of a transaction that has failed succeeds as a ROLLBACK.
    if (std::string_view(PQcmdStatus(result->get())) == "COMMIT") return sealane::Ok();
    return Error(ErrorKind::kMisuse, "rolled_back", "the transaction had failed before");
  }

  Result<Outcome> Run(const std::string& sql, std::span<const SqlValue> values) override {
    SEALANE_ASSIGN_OR_RETURN(const PgResult result, Send(sql, values));
    const std::string changed = PQcmdTuples(result.get());
    return Outcome{.rows = ReadRows(result.get()), .changed = changed.empty() ? 0 : std::stoll(changed)};
  }

  sealane::TransactionRef transaction() override { return connection_.get(); }

 private:
  Result<PgResult> Send(const std::string& sql, std::span<const SqlValue> values) {
    const Parameters parameters(values);
    PgResult result(
        PQexecParams(connection_.get(), sql.c_str(), static_cast<int>(parameters.pointers.size()), nullptr,
                     parameters.pointers.data(), parameters.lengths.data(), parameters.formats.data(), 0),
        &PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return result;
    if (PQstatus(connection_.get()) == CONNECTION_BAD) {
      return Error(ErrorKind::kUnavailable, "connection_lost", PQerrorMessage(connection_.get()));
    }
    const char* const state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
    const char* const message = PQresultErrorField(result.get(), PG_DIAG_MESSAGE_PRIMARY);
    return sealane::ErrorFromServer(state == nullptr ? "" : state, message == nullptr ? "" : message);
  }

  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

}  // namespace

std::unique_ptr<Connection> ConnectPostgres(const std::string& url) {
  return std::make_unique<Postgres>(url);
}

}  // namespace example
