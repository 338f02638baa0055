#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "database.hpp"

namespace example {

/// What PostgreSQL and SQLite do each in their own way.
class Connection {
 public:
  struct Outcome {
    std::vector<Row> rows;
    std::int64_t changed = 0;  ///< of a statement that changes rows
  };

  virtual ~Connection() = default;

  virtual sealane::Status Begin() = 0;
  virtual sealane::Status Commit() = 0;
  virtual sealane::Result<Outcome> Run(const std::string& sql, std::span<const sealane::SqlValue> values = {}) = 0;
  /// The open transaction as Sealane takes it.
  virtual sealane::TransactionRef transaction() = 0;
};

/// Both throw a SealaneException.
std::unique_ptr<Connection> ConnectPostgres(const std::string& url);
std::unique_ptr<Connection> ConnectLite(const std::string& path);

}  // namespace example
