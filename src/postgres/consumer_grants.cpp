#include "ops/consumer_grants.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "ops/operator_action.hpp"
#include "postgres/connection.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_store.hpp"
#include "postgres/row_text.hpp"
#include "postgres/short_transaction.hpp"

namespace sealane::postgres {
namespace {

class PostgresConsumerGrants final : public ConsumerGrants {
 public:
  PostgresConsumerGrants(Connection connection, std::string quoted_schema)
      : connection_(std::move(connection)), schema_(std::move(quoted_schema)) {}

  Result<std::vector<ConsumerGrant>> List(const std::optional<std::string>& consumer) override {
    const std::array<TextParameter, 1> parameters = {consumer};
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult result,
        Execute(connection_.get(),
                fmt::format("SELECT consumer, role, {} FROM {}.consumer_grant WHERE consumer = $1 OR $1 IS NULL"
                            " ORDER BY consumer, role COLLATE \"C\"",
                            Micros("granted_at"), schema_),
                parameters));
    std::vector<ConsumerGrant> grants;
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      grants.push_back({Text(result, row, 0), Text(result, row, 1), TimeAt(result, row, 2)});
    }
    return grants;
  }

  Result<bool> Grant(const std::string& consumer, const std::string& role, const OperatorAction& why) override {
    return Change("operator_grant_consumer", consumer, role, why);
  }
  Result<bool> Revoke(const std::string& consumer, const std::string& role, const OperatorAction& why) override {
    return Change("operator_revoke_consumer", consumer, role, why);
  }

 private:
  Result<bool> Change(std::string_view function, const std::string& consumer, const std::string& role,
                      const OperatorAction& why) {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    const std::array<TextParameter, 4> parameters = {consumer, role, why.actor, why.reason};
    const auto changed =
        Execute(connection_.get(), fmt::format("SELECT {}.{}($1, $2, $3, $4)", schema_, function), parameters);
    if (changed) return IsTrue(*changed, 0, 0);
    return ChangeFailed(connection_.get(), changed.error());
  }

  Connection connection_;
  std::string schema_;
};

}  // namespace

Result<std::unique_ptr<ConsumerGrants>> OpenConsumerGrants(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(std::string quoted_schema, QuoteSchema(options.schema));
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options));
  SEALANE_RETURN_IF_ERROR(RequireCurrentSchema(connection.get(), quoted_schema, options));
  return std::unique_ptr<ConsumerGrants>(
      std::make_unique<PostgresConsumerGrants>(std::move(connection), std::move(quoted_schema)));
}

}  // namespace sealane::postgres
