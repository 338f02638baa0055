#pragma once

#include <string>

#include "sealane/idempotency.hpp"
#include "sealane/outbox.hpp"

#include "database.hpp"
#include "http_server.hpp"

namespace example {

/// Takes orders. Every method works on the caller's connection and in one transaction; any number of threads may call
/// them, each with a connection of its own.
class OrderService {
 public:
  explicit OrderService(std::string topic) : topic_(std::move(topic)) {}

  /// POST /orders and GET /orders/ID. Throws a SealaneException: then nothing was done, or the same request finds
  /// out what was. kRejected is the client's fault.
  Response Answer(Database& database, const Request& request) const;

 private:
  Response Place(Database& database, const std::string& key, const std::string& body) const;
  Response Find(Database& database, const std::string& id) const;

  const std::string topic_;
  const sealane::Outbox outbox_{{.producer = "order-service"}};
  const sealane::Idempotency idempotency_{};
};

}  // namespace example
