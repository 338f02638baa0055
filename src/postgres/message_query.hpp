#pragma once

#include <optional>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include "outbox/outbox_store.hpp"

namespace sealane::postgres {

/// Reads messages for people. The log has no index on seq or event id (each would cost every append), so a query
/// walks back through time in growing steps and stops as soon as it has enough: the newest rows cost little however
/// large the log is. What matches nothing is bounded by the statement timeout.
class MessageQuery {
 public:
  MessageQuery(PGconn* connection, std::string quoted_schema)
      : connection_(connection), schema_(std::move(quoted_schema)) {}

  Result<std::vector<StoredMessage>> List(const MessageFilter& filter) const;
  Result<std::optional<StoredMessage>> Find(const EventId& id) const;

 private:
  struct Conditions;
  Result<std::vector<StoredMessage>> Run(const Conditions& conditions, std::size_t limit) const;
  Status LoadPayloads(std::vector<StoredMessage>& messages) const;
  Result<std::optional<Timestamp>> RememberedAt(const EventId& id) const;

  PGconn* connection_;
  std::string schema_;
};

}  // namespace sealane::postgres
