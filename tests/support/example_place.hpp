#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/child_process.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {

using Words = std::vector<std::string>;

/// A database of an example: one of PostgreSQL, or a file, with Sealane's tables and those of a script in it.
class ExampleStore {
 public:
  ExampleStore(bool postgres, const std::string& script);

  std::string url() const;
  const std::string& folder() const { return file_.folder(); }
  /// The name of one of our tables there.
  std::string Table(const std::string& name) const;
  void Execute(const std::string& sql) const;
  std::vector<std::vector<std::string>> Query(const std::string& sql) const;
  std::int64_t Number(const std::string& sql) const;
  /// Every column of every row of one of our tables, as text.
  std::string Dump(const std::string& table) const;

 private:
  std::unique_ptr<ScratchDatabase> database_;
  SqliteFile file_;
};

/// Where a worked example is tried: `postgres_kafka` or `sqlite_journal`. Topics have names of this place alone,
/// because tests share a Kafka; the relay translates.
class ExamplePlace {
 public:
  ExamplePlace(const std::string& kind, const std::vector<std::string>& topics);

  bool is_kafka() const { return is_kafka_; }
  std::string broker_url() const;
  std::string Topic(const std::string& name) const { return prefix_ + name; }
  const std::string& folder() const { return file_.folder(); }

  /// For `sealane relay` on this place: short leases, this place's topics.
  std::map<std::string, std::string> RelayVariables() const;
  /// Everything committed in `store` goes to the broker.
  CommandResult Relay(const ExampleStore& store) const;
  /// Every byte that a topic holds: keys, values and headers.
  std::string Content(const std::string& topic) const;

 private:
  bool is_kafka_;
  std::string prefix_;
  SqliteFile file_;
};

/// A file of the source tree, for example `examples/payments/schema.sql`.
std::string SourcePath(const std::string& path);

}  // namespace sealane::testing
